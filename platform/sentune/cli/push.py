"""``sentune push``: a model folder as a repository of the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from sentune.errors import InvalidValue, SentuneError
from sentune.terminal import Terminal, plain_table, print_line, say, screen


def push(
    model: Annotated[
        str, Argument(help="A model folder, its URI, or models:/NAME@champion.", show_default=False)
    ],
    repo: Annotated[str, Argument(metavar="OWNER/NAME", show_default=False)],
    private: Annotated[bool, Option("--private", help="A new repository is private.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Check, and say what would go.")] = False,
) -> None:
    """Upload a model with its card to the Hugging Face Hub.

    The folder is checked against its checksums before. The token is the one of `hf auth login`, or
    HF_TOKEN.
    """
    from huggingface_hub import HfApi, ModelCard
    from huggingface_hub.errors import HfHubHTTPError

    from sentune.embedder.load import folder_of
    from sentune.training.model import CARD_FILE, check_model, read_settings
    from sentune.training.model_card import HUB_NAME

    if not HUB_NAME.fullmatch(repo):
        raise InvalidValue("OWNER/NAME", repo, "write the repository as in ann/boxes")
    folder = folder_of(model)
    method = read_settings(folder)["method"]
    check_model(folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    table = plain_table("file", "kB")
    for path in files:
        table.add_row(str(path.relative_to(folder)), f"{path.stat().st_size / 1000:,.1f}")
    screen().print(table)
    card = folder / CARD_FILE
    if not (card.is_file() and ModelCard.load(card).data.to_dict().get("license")):
        line = f"no licence is named: add `license: NAME` to the first lines of {card}"
        print_line(Terminal(stderr=True), line, "yellow")
    megabytes = sum(path.stat().st_size for path in files) / 1e6
    what = f"{len(files)} files, {megabytes:,.1f} MB"
    if dry_run:
        say(f"{what} would go to https://huggingface.co/{repo}; the checksums hold")
        return
    api = HfApi()
    try:
        api.create_repo(repo, private=private, exist_ok=True)
        done = api.upload_folder(
            repo_id=repo, folder_path=Path(folder), commit_message=f"{method} from sentune"
        )
    except (HfHubHTTPError, OSError) as error:
        told = " ".join(str(error).split())
        raise SentuneError(f"{repo} was not pushed: {told}") from error
    say(f"{what}: {done.commit_url}")
