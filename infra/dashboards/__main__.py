"""`python -m infra.dashboards`: write the dashboards' files anew. Needs what checks and tests need."""

import json
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.builders import dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DataSourceRef, VariableRefresh

from infra.dashboards.panels import DASHBOARDS, Dashboard, Panel

FOLDER = Path(__file__).parent
SOURCE = DataSourceRef(type_val="prometheus", uid="${source}")


def document(shown: Dashboard) -> str:
    """Return a dashboard as Grafana imports it; the data source is asked for."""
    made = (
        dashboard.Dashboard(shown.title).uid(shown.uid).tags(["lakehouse"]).refresh("10s").time("now-1h", "now")
        .with_variable(dashboard.DatasourceVariable("source").type("prometheus"))
    )  # fmt: skip
    for name, query in shown.variables.items():
        made = made.with_variable(
            dashboard.QueryVariable(name).datasource(SOURCE).query(query).refresh(VariableRefresh.ON_DASHBOARD_LOAD)
        )
    for panel in shown.panels:
        made = made.with_panel(_panel(panel))
    text: str = JSONEncoder(sort_keys=True, indent=1).encode(made.build())
    return json.dumps(json.loads(text), indent=1, sort_keys=True) + "\n"


def _panel(panel: Panel) -> Any:
    kind = timeseries if panel.kind == "timeseries" else stat
    made = kind.Panel().title(panel.title).unit(panel.unit).datasource(SOURCE)
    made = made.height(8).span(6 if panel.kind == "stat" else 12)
    for place, (legend, query) in enumerate(panel.queries.items()):
        made = made.with_target(prometheus.Dataquery().expr(query).legend_format(legend).ref_id(chr(65 + place)))
    return made


def main() -> None:
    """Write all files, and remove those of dashboards that are no more."""
    wanted = {f"{shown.uid}.json": document(shown) for shown in DASHBOARDS}
    for path in FOLDER.glob("*.json"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
