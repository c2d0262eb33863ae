"""Plausible values, drawn from a given random stream."""

import json
from base64 import b64encode
from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from random import Random
from uuid import UUID

_FIRST = (
    "Ada",
    "Bjørn",
    "Chloé",
    "Dmitri",
    "Élodie",
    "Farah",
    "Göran",
    "Hana",
    "Ivo",
    "Jürgen",
    "Kenji",
    "Lúcia",
    "Mei",
    "Noor",
    "Olga",
    "Pablo",
    "Quinn",
    "Renée",
    "Søren",
    "Tomáš",
    "Uma",
    "Věra",
    "Wei",
    "Zoë",
)
_LAST = (
    "Ångström",
    "Becker",
    "Castro",
    "Dubois",
    "Eriksen",
    "Fischer",
    "García",
    "Haddad",
    "Ito",
    "Jansen",
    "Kowalski",
    "López",
    "Müller",
    "Nguyễn",
    "O'Brien",
    "Petrov",
    "Rossi",
    "Šimek",
    "Tanaka",
    "Weber",
    "李",
    "김",
)
_STREETS = ("Hauptstraße", "Rue de l'Église", "Station Road", "Calle Mayor", "Strandvägen", "Via Roma", "Łąkowa")
_CITIES = (("Berlin", "DE"), ("Lyon", "FR"), ("Leeds", "GB"), ("Málaga", "ES"), ("Göteborg", "SE"), ("Kraków", "PL"))
_NOUNS = ("Kettle", "Lamp", "Desk", "Backpack", "Headphones", "Tent", "Notebook", "Jacket", "Blender", "Bicycle")
_ADJECTIVES = ("Quiet", "Folding", "Crimson", "Everyday", "Nordic", "Compact", "Wireless", "Solid", "Little", "Grand")
_CATEGORIES = ("home", "kitchen", "office", "outdoor", "audio", "sport", "clothing", "sale", "new")
_TAGS = ("vip", "newsletter", "b2b", "returns-often", "beta", "wholesale", 'früh"bucher', "a,b")
_PLANS = (("starter", "9.90"), ("team", "49.00"), ("business", "199.00"))

# Above 2 kB PostgreSQL moves a value out of its row; of these, every fourth is well above 8 kB.
LARGE_PROFILE_BYTES = (6_200, 9_800)
STOLEN_SHARE = 0.002
LARGE_PROFILE_SHARE = 0.25


def full_name(random: Random) -> str:
    """Return a first and a last name."""
    return f"{random.choice(_FIRST)} {random.choice(_LAST)}"


def email(name: str, unique: str) -> str:
    """Return an address that no one else has, if ``unique`` is."""
    plain = "".join(c for c in name.lower() if c.isascii() and c.isalpha())
    return f"{plain or 'guest'}.{unique}@example.com"


def profile(random: Random) -> str:
    """Return a profile as JSON text; some larger than 8 kB, and hardly compressible."""
    document: dict[str, object] = {
        "locale": random.choice(("de-DE", "fr-FR", "en-GB", "es-ES", "sv-SE", "pl-PL", "zh-CN")),
        "height_cm": random.choice((None, random.randint(150, 205))),
        "score": round(random.random() * 100, 3),
        "interests": random.sample(_CATEGORIES, random.randint(0, 4)),
        "consents": {"email": random.random() < 0.5, "phone": random.random() < 0.2},
        "quote": random.choice(('"Ça va?" \\ ok', "naïve — 日本 🛒", "", None)),
    }
    if random.random() < LARGE_PROFILE_SHARE:
        document["embedding"] = b64encode(random.randbytes(random.randint(*LARGE_PROFILE_BYTES))).decode()
    return json.dumps(document, ensure_ascii=False)


def avatar(random: Random) -> bytes | None:
    """Return a small picture's bytes, for every fifth customer."""
    return b"\x89PNG\r\n\x1a\n" + random.randbytes(random.randint(64, 600)) if random.random() < 0.2 else None


def tags(random: Random) -> list[str]:
    """Up to three labels."""
    return random.sample(_TAGS, random.randint(0, 3))


def birthday(random: Random) -> date | None:
    """Return a day in the 20th century or the years after it, sometimes unknown."""
    return None if random.random() < 0.1 else date(1930, 1, 1) + timedelta(days=random.randrange(29_000))


def address(random: Random) -> tuple[str, str, str, str, float | None, float | None]:
    """Street, city, postal code, country, latitude and longitude."""
    city, country = random.choice(_CITIES)
    street = f"{random.choice(_STREETS)} {random.randint(1, 240)}"
    known = random.random() < 0.8
    place = (random.uniform(36, 60), random.uniform(-9, 20)) if known else (None, None)
    return street, city, f"{random.randint(10_000, 99_999)}", country, *place


def ship_to(random: Random) -> str:
    """Return an address as JSON text."""
    street, city, code, country, *_ = address(random)
    return json.dumps({"street": street, "city": city, "postal_code": code, "country": country}, ensure_ascii=False)


def money(random: Random, low: int, high: int) -> Decimal:
    """Return an amount between so many cents and so many."""
    return Decimal(random.randint(low, high)) / 100


def product_name(random: Random) -> str:
    """Return what a product is called."""
    return f"{random.choice(_ADJECTIVES)} {random.choice(_NOUNS)}"


def categories(random: Random) -> list[str]:
    """Return one to three shelves."""
    return random.sample(_CATEGORIES, random.randint(1, 3))


def sizes(random: Random) -> list[int] | None:
    """Sizes a product comes in, sometimes none known."""
    return None if random.random() < 0.4 else sorted(random.sample(range(30, 60), random.randint(0, 6)))


def plan(random: Random) -> tuple[str, Decimal]:
    """Return a subscription's name and monthly price."""
    name, monthly = random.choice(_PLANS)
    return name, Decimal(monthly)


def answer(random: Random, customer: int | None) -> str:
    """Return what a payment provider replied, as JSON text: also from where the customer paid."""
    ref = random.randbytes(8)
    reply = {"ref": ref.hex(), "risk": round(random.random(), 4), "3ds": random.random() < 0.4}
    return json.dumps({**reply, "place": _paid_from(ref, customer)})


def _paid_from(ref: bytes, customer: int | None) -> dict[str, float]:
    """Return a place near where the customer lives; now and then one anywhere: somebody else has the card."""
    home, own = Random(customer or 0), Random(ref)  # noqa: S311
    lat, lon = home.uniform(36, 60), home.uniform(-9, 20)
    if own.random() < STOLEN_SHARE:
        return {"lat": round(own.uniform(-45, 60), 4), "lon": round(own.uniform(-120, 150), 4)}
    return {"lat": round(lat + own.uniform(-0.2, 0.2), 4), "lon": round(lon + own.uniform(-0.2, 0.2), 4)}


def usage(random: Random) -> tuple[str, float, str | None]:
    """Kind, seconds and payload of a usage event."""
    payload = (
        None if random.random() < 0.3 else json.dumps({"items": random.randint(1, 50), "ok": random.random() < 0.97})
    )
    return random.choice(("login", "export", "query", "upload")), round(random.expovariate(0.2), 6), payload


def uuid(random: Random) -> UUID:
    """Return a random UUID of version 4."""
    return UUID(bytes=random.randbytes(16), version=4)


def note(
    random: Random, words: Sequence[str] = ("leave", "at", "the", "door", "\n", "please", "£5", "tip")
) -> str | None:
    """Return what a customer wrote beside an order, mostly nothing."""
    return " ".join(random.choices(words, k=random.randint(1, 8))) if random.random() < 0.2 else None
