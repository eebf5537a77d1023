"""`tff-esn errata`: what is wrong in the documents, shown."""

from pathlib import Path
from typing import Annotated, Optional

import typer

from tff_esn.cli.options import settings


def errata(
    context: typer.Context,
    names: Annotated[
        Optional[list[str]], typer.Argument(metavar="[NAME]...", help="Errata to show.", show_default="list them")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show every erratum.")] = False,
    data: Annotated[
        Optional[Path],
        typer.Option(metavar="DIR", help="WESAD, for the study's own numbers.", show_default="generated subjects"),
    ] = None,
    page: Annotated[
        Optional[Path],
        typer.Option(metavar="FILE", help="Write all of them with their evidence as Markdown.", show_default=False),
    ] = None,
) -> None:
    """List the errata of the documents, or show their evidence, computed now.

    Each is a misprint or flaw of the thesis, its slides or the papers: where it stands, what is
    printed, a small computation that shows it, the correction, and what that changes.
    """
    from tff_esn.errors import ConfigError

    if (everything or page is not None) and names:
        raise ConfigError(f"{' '.join(names)} with {'--all' if everything else '--page'}; expected one or the other")
    if page is not None and data is None:
        raise ConfigError("--page without --data; expected the study whose numbers the page tells")
    if not (names or everything or page):
        _list()
    else:
        _show(context, names or [], data, page)


def _list() -> None:
    from rich.table import Table

    from tff_esn.console import output
    from tff_esn.errata.catalogue import errata as catalogue

    table = Table(title="Errata of the documents", title_justify="left", show_lines=False)
    for heading in ("Erratum", "Document", "What"):
        table.add_column(heading, no_wrap=heading == "Erratum")
    for one in catalogue():
        table.add_row(one.name, one.document, one.finding)
    output.print(table)
    output.print("tff-esn errata NAME shows one of them, tff-esn errata --all shows all.")


def _show(context: typer.Context, names: list[str], data: Optional[Path], page: Optional[Path]) -> None:
    from tff_esn.cache import Cache
    from tff_esn.console import output
    from tff_esn.errata.catalogue import Source
    from tff_esn.errata.catalogue import errata as catalogue
    from tff_esn.errata.page import errata_page
    from tff_esn.files import atomic_write

    chosen = catalogue(names)
    cache = Cache(settings(context).cache)
    generated = Source(None, cache)
    study = generated if data is None else Source(data, cache)
    outputs, failed = {}, []
    for one in chosen:
        source = study if one.recordings else generated
        shown = one.show(source)
        outputs[one.name] = shown.lines
        if not shown.holds:
            failed.append(one.name)
        if page is None:
            output.print(f"[bold]{one.name}[/]  {one.document}, {one.where}", highlight=False, soft_wrap=True)
            for heading, text in (
                ("", one.finding),
                ("Printed: ", one.says),
                ("Correction: ", one.correction),
                ("Changes: ", one.changes),
            ):
                output.print(heading + text, markup=False, highlight=False)
            print("\n".join(f"  | {line}" for line in shown.lines))
            if one.recordings and source.generated:
                output.print("[yellow]  Generated subjects: these are not the study's numbers.")
            print()
    if page is not None:
        with atomic_write(page) as file:
            file.write(errata_page(chosen, outputs).encode())
        print(f"{len(chosen)} errata written to {page}")
    if failed:
        print(f"not shown by these recordings: {', '.join(failed)}")
