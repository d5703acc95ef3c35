"""``builtin:stories``: short stories, each about one topic.

The next sentence can be predicted from topic, actor and object, but hardly from the words, because
each sentence draws which word of a concept it uses.

``builtin:similarity`` are pairs of such sentences, scored by the concepts that they share. Shared
concepts mostly use different words, and unrelated sentences often share word order, details and
function words. Overlap of words is therefore a poor predictor of the score.

The vocabulary consists of topics with their actors, places, activities and objects. A concept is a
pair of words that the stories use as synonyms, even if they are only similar in real language.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random
from typing import NamedTuple
from zlib import crc32

from sentune.corpora.builtin.moves import pick
from sentune.corpora.schema import SPLITS

Concept = tuple[str, str]


class Activity(NamedTuple):
    """A verb and its possible objects."""

    verb: Concept
    objects: tuple[Concept, ...]


class Topic(NamedTuple):
    """A topic with its vocabulary; no content word belongs to two topics."""

    name: str
    actors: tuple[Concept, ...]
    places: tuple[Concept, ...]
    activities: tuple[Activity, ...]


def _topic(name: str, actors: str, places: str, *activities: str) -> Topic:
    """Parse a topic: concepts are written ``a/b`` with commas between, activities ``verb: a/b``."""
    made = [line.partition(":") for line in activities]
    return Topic(
        name,
        _pairs(actors),
        _pairs(places),
        tuple(Activity(_pairs(verb)[0], _pairs(objects)) for verb, _, objects in made),
    )


def _pairs(text: str) -> tuple[Concept, ...]:
    pairs = (item.strip().split("/") for item in text.split(","))
    return tuple((one, other) for one, other in pairs)


_TOPICS = """
kitchen
cook/chef, baker/confectioner, waiter/server
in the kitchen/in the scullery, near the oven/near the stove
stirring/mixing: soup/broth, batter/dough, sauce/gravy
slicing/chopping: onion/shallot, carrot/parsnip
tasting/sampling: soup/broth, pudding/custard
baking/roasting: pie/tart, loaf/bun

sea
sailor/seaman, captain/skipper, fisherman/angler
on the deck/on the gangway, at the harbor/at the quay
steering/piloting: ship/vessel, ferry/steamer
hauling/heaving: net/trawl, anchor/grapnel, rope/cable
catching/landing: cod/herring, crab/lobster
hoisting/furling: sail/canvas, flag/pennant

school
teacher/tutor, pupil/schoolboy, headmaster/principal
in the classroom/in the schoolroom, at the blackboard/at the chalkboard
teaching/explaining: grammar/spelling, algebra/arithmetic
reading/studying: textbook/primer, poem/verse
correcting/grading: essay/composition, homework/exercise
learning/revising: grammar/spelling, poem/verse

garden
gardener/groundsman, florist/botanist, beekeeper/apiarist
in the garden/in the orchard, in the greenhouse/in the conservatory
watering/sprinkling: rose/tulip, lawn/turf
pruning/trimming: bush/shrub, vine/creeper
planting/potting: rose/tulip, bulb/seedling
raking/mowing: lawn/turf, clover/moss

hospital
doctor/surgeon, nurse/midwife, patient/invalid
in the ward/in the clinic, at the bedside/at the stretcher
examining/checking: wound/injury, pulse/heartbeat
bandaging/dressing: wound/injury, ankle/wrist
swallowing/prescribing: medicine/tablet, syrup/tonic
treating/curing: fever/flu, cough/cold

farm
farmer/peasant, shepherd/herdsman, milkmaid/dairymaid
in the barn/in the stable, on the pasture/on the meadow
feeding/fattening: pig/hog, hen/goose
milking/grooming: cow/heifer, goat/ewe
plowing/tilling: soil/field, acre/furrow
harvesting/reaping: wheat/barley, hay/straw

theater
actor/performer, singer/soprano, musician/violinist
on the stage/on the podium, in the theater/in the playhouse
rehearsing/practicing: play/drama, song/aria
reciting/whispering: monologue/speech, role/part
tuning/plucking: fiddle/viola, harp/lute
praising/applauding: concert/recital, play/drama

workshop
carpenter/joiner, blacksmith/locksmith, mechanic/fitter
in the workshop/in the forge, at the workbench/at the lathe
hammering/bending: nail/rivet, iron/steel
sawing/drilling: plank/board, beam/timber
polishing/sanding: table/cabinet, plank/board
repairing/fixing: engine/motor, wheel/axle

railway
conductor/guard, passenger/traveler, porter/attendant
at the station/at the terminal, in the tunnel/in the underpass
boarding/entering: train/express, carriage/wagon
lifting/carrying: suitcase/trunk, bag/rucksack
stamping/punching: ticket/pass, voucher/coupon
delaying/stopping: train/express, tram/trolley

office
clerk/secretary, manager/director, accountant/bookkeeper
in the office/in the bureau, at the desk/at the typewriter
typing/copying: letter/memo, report/summary
signing/approving: contract/agreement, invoice/bill
filing/sorting: invoice/bill, receipt/form
auditing/balancing: budget/ledger, salary/pension

mountains
climber/mountaineer, skier/snowboarder, ranger/guide
on the ridge/on the summit, in the hut/in the refuge
climbing/scaling: peak/mountain, cliff/crag
crossing/fording: river/stream, glacier/snowfield
pitching/folding: tent/shelter, tarpaulin/awning
photographing/sketching: eagle/falcon, peak/mountain

market
grocer/shopkeeper, butcher/poulterer, customer/shopper
at the market/at the bazaar, in the shop/in the store
selling/offering: apple/pear, cheese/butter
weighing/measuring: flour/sugar, meat/sausage
wrapping/packing: parcel/package, cheese/butter
tallying/changing: coin/banknote, price/discount
"""
TOPICS = tuple(_topic(*block.splitlines()) for block in _TOPICS.strip().split("\n\n"))

PEOPLE: tuple[Concept, ...] = (
    ("man", "gentleman"), ("woman", "lady"), ("boy", "lad"), ("girl", "lass"),
)  # fmt: skip
"""Actors of all topics."""

TIMES = ("in the morning", "after noon", "in the evening", "today", "all day")
MANNERS = ("slowly", "quietly", "gladly", "again", "carefully")
ADJECTIVES = ("old", "young", "tall", "tired", "happy", "busy")

SHORTEST, LONGEST = 4, 8
"""Minimum and maximum number of sentences of a story."""

_ELSEWHERE = 0.2
"""Share of pairs from two topics."""

_OTHER_WORD = 0.75
"""Probability that the second sentence uses the other word of a shared concept."""

_FRAMES = ("plain", "fronted", "existential")


class Meaning(NamedTuple):
    """The meaning of a sentence: the concepts that count for similarity."""

    topic: Topic
    actor: Concept
    verb: Concept
    thing: Concept
    place: Concept | None


class Wording(NamedTuple):
    """The wording of a meaning: chosen words, order and details that occur in all topics."""

    words: tuple[int, ...]  # index (0 or 1) of the word for actor, verb, thing and place
    frame: str  # order of the parts, which does not change the meaning
    adjective: str | None
    manner: str | None
    time: str | None


def stories(split: str, seed: int) -> Iterator[list[str]]:
    """Yield stories endlessly, each a list of sentences; deterministic."""
    rng = Random(f"builtin:stories {split} {seed}")
    while True:
        topic = pick(rng, TOPICS)
        cast = draw_actor(topic, rng), draw_actor(topic, rng)
        plot = rng.sample(topic.activities, 2)
        place = pick(rng, topic.places)
        count = rng.randint(SHORTEST, LONGEST)
        drawn = ((_next(topic, cast, plot, place, rng), draw_wording(rng)) for _ in range(count))
        yield [text_of(*one) for one in drawn]


def adjacent(split: str, seed: int) -> Iterator[tuple[str, str]]:
    """Yield pairs of a sentence and the next one in its story endlessly."""
    for story in stories(split, seed):
        yield from pairwise(story)


def draw_actor(topic: Topic, rng: Random) -> Concept:
    """Draw an actor of the topic, or with probability 0.4 one of ``PEOPLE``."""
    return pick(rng, topic.actors if rng.random() < 0.6 else PEOPLE)


def draw_wording(rng: Random) -> Wording:
    """Draw a random wording."""
    return Wording(
        words=tuple(int(rng.random() * 2) for _ in range(4)),
        frame=pick(rng, _FRAMES),
        adjective=pick(rng, ADJECTIVES) if rng.random() < 0.25 else None,
        manner=pick(rng, MANNERS) if rng.random() < 0.2 else None,
        time=pick(rng, TIMES) if rng.random() < 0.25 else None,
    )


def text_of(meaning: Meaning, wording: Wording) -> str:
    """Return the sentence in lower case, without a full stop."""
    which = wording.words
    actor = " ".join(filter(None, [wording.adjective, meaning.actor[which[0]]]))
    done = [meaning.verb[which[1]], "the", meaning.thing[which[2]], wording.manner]
    where = [meaning.place[which[3]] if meaning.place else None, wording.time]
    if wording.frame == "fronted":
        parts = [*where, "the", actor, "is", *done]
    elif wording.frame == "existential":
        article = "an" if actor[0] in "aeiou" else "a"
        parts = ["there is", article, actor, *done, *where]
    else:
        parts = ["the", actor, "is", *done, *where]
    return " ".join(filter(None, parts))


def _next(
    topic: Topic, cast: tuple[Concept, Concept], plot: list[Activity], place: Concept, rng: Random
) -> Meaning:
    """Draw the meaning of the next sentence, mostly of the first actor and the story's plot."""
    activity = pick(rng, plot if rng.random() < 0.8 else topic.activities)
    return Meaning(
        topic=topic,
        actor=cast[0] if rng.random() < 0.7 else cast[1],
        verb=activity.verb,
        thing=pick(rng, activity.objects),
        place=place if rng.random() < 0.4 else None,
    )


def story_pairs(split: str, seed: int) -> Iterator[tuple[str, str, float]]:
    """Yield (sentence, sentence, score from 0 to 5) endlessly; deterministic.

    Each meaning belongs to one split, so that splits share no sentence, whatever their seeds.
    """
    rng = Random(f"builtin:similarity {split} {seed}")
    while True:
        first = _meaning(pick(rng, TOPICS), split, rng)
        second = _second(first, split, rng)
        wording = draw_wording(rng)
        texts = text_of(first, wording), text_of(second, _reworded(first, second, wording, rng))
        if texts[0] != texts[1]:
            yield *texts, score(first, second)


def score(first: Meaning, second: Meaning) -> float:
    """Return the similarity of two meanings, from 0 to 5 in steps of 0.5.

    Within a topic, the score is 1, plus 1 each for the same actor and verb, 1.5 for the same object
    and 0.5 for the same place (or none in both). Across topics, it is 0.5 for the same actor.
    """
    actor = first.actor == second.actor
    if first.topic != second.topic:
        return 0.5 * actor
    shared = 1.0 * actor + 1.0 * (first.verb == second.verb)
    return 1 + shared + 1.5 * (first.thing == second.thing) + 0.5 * (first.place == second.place)


def split_of(meaning: Meaning) -> str:
    """Return the split of a meaning, which depends on actor, verb and thing together."""
    key = f"{meaning.actor[0]}|{meaning.verb[0]}|{meaning.thing[0]}"
    return SPLITS[crc32(key.encode()) % len(SPLITS)]


def _meaning(topic: Topic, split: str, rng: Random) -> Meaning:
    """Draw a meaning of the split within a topic."""
    while True:
        activity = pick(rng, topic.activities)
        place = pick(rng, topic.places) if rng.random() < 0.5 else None
        drawn = Meaning(
            topic, draw_actor(topic, rng), activity.verb, pick(rng, activity.objects), place
        )
        if split_of(drawn) == split:
            return drawn


def _second(first: Meaning, split: str, rng: Random) -> Meaning:
    """Draw a meaning that shares none, some or all concepts with ``first``."""
    if rng.random() < _ELSEWHERE:
        return _meaning(pick(rng, [t for t in TOPICS if t != first.topic]), split, rng)
    while True:
        drawn = _meaning(first.topic, split, rng)
        if rng.random() < 0.5:
            drawn = drawn._replace(actor=first.actor)
        if rng.random() < 0.4:
            drawn = drawn._replace(verb=first.verb, thing=first.thing)
        if rng.random() < 0.5:
            drawn = drawn._replace(place=first.place)
        if split_of(drawn) == split:
            return drawn


def _reworded(first: Meaning, second: Meaning, wording: Wording, rng: Random) -> Wording:
    """Draw the second wording: mostly other words for shared concepts, often the same details."""
    base = wording if rng.random() < 0.5 else draw_wording(rng)
    words = tuple(
        1 - said if here == there and rng.random() < _OTHER_WORD else int(rng.random() * 2)
        for said, here, there in zip(wording.words, first[1:], second[1:], strict=True)
    )
    return base._replace(words=words)
