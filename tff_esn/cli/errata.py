"""`tff-esn errata`: errors in the documents, with computed evidence."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from tff_esn.cli.options import settings

if TYPE_CHECKING:
    from tff_esn.runs.errata.catalogue import Erratum


def errata(
    context: typer.Context,
    names: Annotated[
        Optional[list[str]], typer.Argument(metavar="[NAME]...", help="Errata to show.", show_default="list them")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show every erratum.")] = False,
    data: Annotated[
        Optional[Path],
        typer.Option(
            metavar="DIR", help="Folder of WESAD, for the numbers of the real study.", show_default="generated subjects"
        ),
    ] = None,
    page: Annotated[
        Optional[Path],
        typer.Option(metavar="FILE", help="Write all of them with their evidence as Markdown.", show_default=False),
    ] = None,
) -> None:
    """List the errata of the documents, or show their evidence, computed now.

    Each is a misprint or flaw of the thesis, its slides or the papers: its place, what is
    printed, a small computation that shows the error, the correction, and its effect.
    """
    from tff_esn.errors import ConfigError

    if (everything or page is not None) and names:
        raise ConfigError(f"{' '.join(names)} with {'--all' if everything else '--page'}; expected one or the other")
    if page is not None and data is None:
        raise ConfigError("--page without --data; expected the study whose numbers the page shows")
    if not (names or everything or page):
        _list()
    else:
        _show(context, names or [], data, page)


def _list() -> None:
    from tff_esn.console import output
    from tff_esn.runs.errata.catalogue import errata as catalogue
    from tff_esn.tables import text_table, to_terminal

    rows = [[one.name, one.document, one.finding] for one in catalogue()]
    output.print(to_terminal(text_table("Errata of the documents", ["Erratum", "Document", "What"], rows)))
    output.print("tff-esn errata NAME shows one of them, tff-esn errata --all shows all.")


def _show(context: typer.Context, names: list[str], data: Optional[Path], page: Optional[Path]) -> None:
    from tff_esn.errors import ConfigError
    from tff_esn.runs.errata.catalogue import Source
    from tff_esn.runs.errata.catalogue import errata as catalogue
    from tff_esn.runs.errata.page import errata_page
    from tff_esn.store.cache import Cache
    from tff_esn.store.files import atomic_write

    chosen = catalogue(names)
    if data is not None and not any(one.recordings for one in chosen):
        raise ConfigError(f"--data {data} with {' '.join(names)}, which no recording is needed for; expected none")
    sources: dict[Optional[Path], Source] = {}
    outputs, failed = {}, []
    for one in chosen:
        folder = data if one.recordings else None
        if folder not in sources:
            sources[folder] = Source(folder, Cache(settings(context).cache))
        shown = one.show(sources[folder])
        outputs[one.name] = shown.lines
        if not shown.holds:
            failed.append(one.name)
        if page is None:
            _print(one, shown.lines, one.recordings and sources[folder].generated)
    if page is not None:
        with atomic_write(page) as file:
            file.write(errata_page(chosen, outputs).encode())
        print(f"{len(chosen)} errata written to {page}")
    if failed:
        print(f"not shown by these recordings: {', '.join(failed)}")


def _print(one: "Erratum", lines: Sequence[str], generated: bool) -> None:
    """An erratum with its evidence; when quiet, the evidence alone."""
    from tff_esn.console import console, output
    from tff_esn.datasets.synthetic import GENERATED

    if not console.quiet:
        output.print(f"[bold]{one.name}[/]  {one.document}, {one.where}", highlight=False, soft_wrap=True)
        for text in (one.finding, f"Printed: {one.says}", f"Correction: {one.correction}", f"Changes: {one.changes}"):
            output.print(text, markup=False, highlight=False)
        print()
    print("\n".join(lines))
    if generated:
        output.print(f"[yellow]{GENERATED}")
    if not console.quiet:
        print()
