"""The shop's customers and products, as others than the shop itself know them: by their keys."""

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg

from services.shop.errors import said
from services.shop.settings import ShopSettings
from services.stack.errors import Unreachable

MOST_KEYS = 5_000


@dataclass(frozen=True)
class Clientele:
    """The keys of customers and products, of each the ``MOST_KEYS`` lowest."""

    customers: Sequence[int]
    products: Sequence[int]

    @classmethod
    def of(cls, settings: ShopSettings) -> "Clientele":
        """Read them; a shop whose tables aren't made yet has none. Raises Unreachable."""
        try:
            with psycopg.connect(settings.dsn, autocommit=True) as connection:
                return cls(_keys(connection, "customers", "customer_id"), _keys(connection, "products", "product_id"))
        except psycopg.errors.UndefinedTable:
            return cls((), ())
        except psycopg.Error as error:
            where = f"{settings.source_db_host}:{settings.source_db_port}"
            raise Unreachable("the shop's database", where, said(error)) from None


def _keys(connection: psycopg.Connection, table: str, key: str) -> list[int]:
    found = connection.execute(f"SELECT {key} FROM {table} ORDER BY 1 LIMIT {MOST_KEYS}".encode())
    return [int(value) for (value,) in found]
