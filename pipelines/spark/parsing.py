"""Ask Spark's parser and Java about texts that people write."""

from pyspark.errors import IllegalArgumentException, ParseException
from pyspark.sql import SparkSession

from pipelines.errors import first_line


def wrong_expression(spark: SparkSession, text: str) -> str | None:
    """Return why a text isn't an expression of Spark's SQL; None: it is one."""
    try:
        spark._jsparkSession.sessionState().sqlParser().parseExpression(text)
    except ParseException as error:
        return first_line(error)
    return None


def wrong_pattern(spark: SparkSession, pattern: str) -> str | None:
    """Return why a text isn't a regular expression that Java understands; None: it is one."""
    java = spark._jvm
    assert java is not None
    try:
        java.java.util.regex.Pattern.compile(pattern)
    except IllegalArgumentException as error:
        return first_line(error)
    return None
