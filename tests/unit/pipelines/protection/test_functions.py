"""Values as Spark protects them: the same that Python makes of them, and no key where somebody could read it."""

import hashlib
import hmac
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipelines.protection.crypto import Hmac, ProtectionKeys, Unreadable
from pipelines.protection.functions import Vault
from quality.protection import PROTECTIONS, masked
from tests.unit.pipelines.harness import SECRET

TEXTS = [
    "",
    "a",
    "ada@example.org",
    "x" * 300,
    "Gräfin 🦊🦊🦊 von Zahl",
    "a\nb\r\nc\0d",
    "123456789",
    "'\\\"`",
    "@",
    "a@b@c",
]


@pytest.fixture(scope="module")
def keys() -> ProtectionKeys:
    found = ProtectionKeys.of(SecretStr(SECRET))
    assert found is not None
    return found


@pytest.fixture(scope="module")
def vault(spark: SparkSession, keys: ProtectionKeys) -> Vault:
    return Vault.of(spark, keys)


def protected(spark: SparkSession, vault: Vault, texts: list[Any]) -> list[Any]:
    rows = spark.createDataFrame([(text,) for text in texts], "text string")
    place = "public.t.text"
    return rows.select("text", *[vault.protected(F.col("text"), p, place).alias(p) for p in PROTECTIONS]).collect()


def test_spark_makes_of_a_text_what_python_makes(spark: SparkSession, vault: Vault, keys: ProtectionKeys) -> None:
    for row in protected(spark, vault, TEXTS):
        assert row.hash == keys.hashed(row.text) == hmac.new(keys.hash, row.text.encode(), hashlib.sha256).hexdigest()
        assert row.tokenise == keys.tokenised(row.text)
        assert keys.detokenised(row.tokenise) == row.text
        assert keys.decrypted(row.encrypt, "public.t.text") == row.text
        assert row.mask == masked(row.text)
        assert row.drop is None


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), min_size=1, max_size=50))
@settings(max_examples=15, deadline=None)
def test_of_any_text(spark: SparkSession, vault: Vault, keys: ProtectionKeys, texts: list[str]) -> None:
    for row in protected(spark, vault, texts):
        assert (row.hash, row.tokenise) == (keys.hashed(row.text), keys.tokenised(row.text))
        assert row.mask == masked(row.text)


def test_null_stays_null(spark: SparkSession, vault: Vault) -> None:
    assert protected(spark, vault, [None]) == [(None,) * 6]


def test_equal_values_are_alike_but_not_if_encrypted(spark: SparkSession, vault: Vault) -> None:
    first, second = protected(spark, vault, ["ada", "ada"])
    assert (first.hash, first.tokenise) == (second.hash, second.tokenise)
    assert first.encrypt != second.encrypt


def test_what_was_encrypted_is_read_at_its_place_with_its_key_only(keys: ProtectionKeys) -> None:
    other = ProtectionKeys.of(SecretStr("another secret that is as long as the first one"))
    assert other is not None
    said = keys.encrypted("ada", "public.t.name")
    for read in (lambda: keys.decrypted(said, "public.t.nick"), lambda: other.decrypted(said, "public.t.name"),
                 lambda: keys.decrypted(said[:-4] + "AAA=", "public.t.name"), lambda: keys.decrypted("ada", "x"),
                 lambda: keys.detokenised(said)):  # fmt: skip
        with pytest.raises(Unreadable):
            read()
    assert other.fingerprint != keys.fingerprint
    assert other.hashed("ada") != keys.hashed("ada")


def test_purposes_have_keys_of_their_own(keys: ProtectionKeys) -> None:
    assert len({keys.hash, keys.synthetic, keys.token, keys.value, keys.letter, SECRET.encode()}) == 6


def test_a_secret_is_long_or_there_is_none() -> None:
    assert ProtectionKeys.of(None) is ProtectionKeys.of(SecretStr("")) is None
    with pytest.raises(ValueError, match="PROTECTION_KEY has 5 characters, of at least 32") as raised:
        ProtectionKeys.of(SecretStr("short"))
    assert "short" not in str(raised.value)


def spelled(keys: ProtectionKeys) -> list[str]:
    """How a key could be written, or a part of it."""
    blocks = [block for key in (keys.hash, keys.synthetic) for block in (Hmac.of(key).inner, Hmac.of(key).outer)]
    every = [SECRET.encode(), keys.hash, keys.synthetic, keys.token, keys.value, keys.letter, *blocks]
    return [how for key in every for how in (
        key.hex()[:16], key.hex().upper()[:16], key.hex(" ").upper()[:16], str(list(key[:4]))[1:-1], repr(key)[2:10],
        str([byte - 256 * (byte > 127) for byte in key[:4]])[1:-1],
    )]  # fmt: skip


def test_no_plan_has_a_key(spark: SparkSession, vault: Vault, keys: ProtectionKeys) -> None:
    rows = spark.createDataFrame([(text,) for text in TEXTS], "text string")
    made = rows.select(*[vault.protected(F.col("text"), p, "public.t.text").alias(p) for p in PROTECTIONS]).persist()
    try:
        found = made.where("hash > '0'").groupBy("mask").count()
        assert found.count() > 0
        java = found._jdf.queryExecution()
        said = java.toString() + java.explainString(_mode(spark, "extended"))
        said += java.explainString(_mode(spark, "codegen")) + java.explainString(_mode(spark, "formatted"))
        assert "LocalTableScan" in said
        assert [how for how in spelled(keys) if how in said] == []
    finally:
        made.unpersist()
    assert repr(keys).count("Keys object") == 1
    assert [how for how in spelled(keys) if how in repr(vault)] == []


def _mode(spark: SparkSession, name: str) -> Any:
    assert spark._jvm is not None
    return spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString(name)
