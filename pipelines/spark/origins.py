"""Where the columns of a query come from, by the plan that Spark makes of it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

# A table's column, as (table, column), and whether the value is the very same.
Origins = dict[tuple[str, str], bool]


def column_origins(frame: DataFrame) -> dict[str, Origins]:
    """Return each column of ``frame`` to the columns of tables that its values are made of.

    What only decides which rows there are (filters, join conditions, groups) isn't among them. A column whose origin
    can't be told has none.
    """
    plan = frame._jdf.queryExecution().optimizedPlan()
    traced = _Trace()
    traced.walk(plan)
    found = {}
    for name, attribute in zip(frame.columns, _items(plan.output()), strict=True):
        found[name] = traced.known.get(_identity(attribute), {})
    return found


@dataclass
class _Trace:
    """What is known of expressions, by their ids."""

    known: dict[int, Origins] = field(default_factory=dict)

    def walk(self, plan: Any) -> None:
        children = list(_items(plan.children()))
        for child in children:
            self.walk(child)
        kind = plan.getClass().getSimpleName()
        if not children:
            table = _table_of(plan, kind)
            for attribute in _items(plan.output()):
                if table is not None:
                    self.known[_identity(attribute)] = {(table, str(attribute.name())): True}
        elif kind == "Union":
            for index, attribute in enumerate(_items(plan.output())):
                parts = [self.of(child.output().apply(index)) for child in children]
                self.known[_identity(attribute)] = _merged(parts)
        elif kind == "Expand":
            for index, attribute in enumerate(_items(plan.output())):
                parts = [self.of(projection.apply(index)) for projection in _items(plan.projections())]
                self.known[_identity(attribute)] = _merged(parts)
        elif kind == "Generate":
            made = _changed(self.of(plan.generator()))
            for attribute in _items(plan.generatorOutput()):
                self.known[_identity(attribute)] = made
        for expression in _items(plan.expressions()):
            if expression.getClass().getSimpleName() == "Alias":
                self.known[_identity(expression)] = self.of(expression.child())

    def of(self, expression: Any) -> Origins:
        """Return what an expression is made of."""
        kind = expression.getClass().getSimpleName()
        if kind == "AttributeReference":
            return self.known.get(_identity(expression), {})
        if kind == "Alias":
            return self.of(expression.child())
        references = _items(expression.references().toSeq())
        return _changed(_merged([self.known.get(_identity(each), {}) for each in references]))


def _table_of(plan: Any, kind: str) -> str | None:
    """Return ``namespace.table`` of a relation of the lake; None: it is another relation."""
    if kind == "DataSourceV2ScanRelation":
        plan, kind = plan.relation(), "DataSourceV2Relation"
    if kind != "DataSourceV2Relation" or plan.identifier().isEmpty():
        return None
    identifier = plan.identifier().get()
    return ".".join((*identifier.namespace(), str(identifier.name())))


def _identity(attribute: Any) -> int:
    return int(attribute.exprId().id())


def _items(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(index) for index in range(sequence.size()))


def _merged(parts: list[Origins]) -> Origins:
    found: Origins = {}
    for part in parts:
        for column, same in part.items():
            found[column] = found.get(column, True) and same
    return found


def _changed(origins: Origins) -> Origins:
    return dict.fromkeys(origins, False)
