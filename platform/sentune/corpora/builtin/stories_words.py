"""The words of ``builtin:stories``: topics with who acts in them, on what and where.

A concept is a pair of words that stand for each other; in life some of them only resemble each
other, in these stories nothing tells them apart.
"""

from __future__ import annotations

from typing import NamedTuple

Concept = tuple[str, str]


class Activity(NamedTuple):
    """What is done, and to what it can be done."""

    verb: Concept
    objects: tuple[Concept, ...]


class Topic(NamedTuple):
    """A part of life with words of its own; no content word belongs to two topics."""

    name: str
    actors: tuple[Concept, ...]
    places: tuple[Concept, ...]
    activities: tuple[Activity, ...]


def _topic(name: str, actors: str, places: str, *activities: str) -> Topic:
    """Pairs are written ``a/b`` with commas between them, an activity ``verb: objects``."""
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
"""Those who may act in any topic."""

TIMES = ("in the morning", "after noon", "in the evening", "today", "all day")
MANNERS = ("slowly", "quietly", "gladly", "again", "carefully")
ADJECTIVES = ("old", "young", "tall", "tired", "happy", "busy")
