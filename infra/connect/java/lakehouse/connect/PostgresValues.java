package lakehouse.connect;

import io.debezium.connector.postgresql.UnchangedToastedReplicationMessageColumn;
import io.debezium.spi.converter.CustomConverter;
import io.debezium.spi.converter.RelationalColumn;
import io.debezium.time.Date;
import io.debezium.time.Interval;
import io.debezium.time.MicroTime;
import io.debezium.time.MicroTimestamp;
import io.debezium.time.ZonedTimestamp;
import java.math.BigDecimal;
import java.math.MathContext;
import java.sql.SQLException;
import java.time.Instant;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Calendar;
import java.util.GregorianCalendar;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import java.util.Set;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.postgresql.PGStatement;
import org.postgresql.util.PGInterval;
import org.postgresql.util.PGobject;

/**
 * Values that Debezium (3.7) alters, leaves out, or has as records: dates before Christ when they are read again,
 * dates, timestamps and the end of a day in arrays, vectors of system catalogs, geometric types, and arrays of types
 * that it doesn't know. In the form that alone-standing values of the type have, and otherwise as PostgreSQL prints
 * them. See infra/decisions/064.
 *
 * <p>Setting {@code placeholder}: what stands for a value that PostgreSQL left out of the log.
 */
public final class PostgresValues implements CustomConverter<SchemaBuilder, RelationalColumn> {
    private static final int DATE = 1082;
    private static final int DATES = 1182;
    private static final int TIMES = 1183;
    private static final int TIMESTAMPS = 1115;
    private static final int TIMESTAMPTZS = 1185;
    private static final int INT2VECTOR = 22;
    private static final int OIDVECTOR = 30;
    private static final int BOXES = 1020;
    private static final int INTERVALS = 1187;
    private static final int MONEYS = 791;
    // point, lseg, path, box, polygon, line, circle
    private static final Set<Integer> GEOMETRIC = Set.of(600, 601, 602, 603, 604, 628, 718);
    // Arrays that Debezium reads as they are: bool, bytea, "char", int2, int4, text, bpchar, varchar, int8, float4,
    // float8, oid, macaddr, inet, cidr, timetz, uuid, json, jsonb, macaddr8, ranges.
    private static final Set<Integer> READ_RIGHT = Set.of(
            1000, 1001, 1002, 1005, 1007, 1009, 1014, 1015, 1016, 1021, 1022, 1028, 1040, 1041, 651, 1270,
             2951, 199, 3807, 775, 3905, 3907, 3909, 3911, 3913, 3927);
    // Arrays of extensions' types that have forms of their own.
    private static final Set<String> OWN_FORM = Set.of("_hstore", "_geometry", "_geography");
    private static final Pattern NUMBER = Pattern.compile("-?(?:\\d[\\d.]*(?:E-?\\d+)?|Infinity)|NaN");
    // What follows the time of day: "+05:30", and after it perhaps " BC", which stays.
    private static final Pattern OFFSET = Pattern.compile("([+-])(\\d+(?::\\d+){0,2})(?=$| BC$)");
    private static final int DIGITS = 17;
    private static final int PLAIN_BELOW = 15;
    private static final int PLAIN_ABOVE = -5;

    private String placeholder;

    @Override
    public void configure(Properties settings) {
        placeholder = settings.getProperty("placeholder", "");
    }

    @Override
    public void converterFor(RelationalColumn column, ConverterRegistration<SchemaBuilder> registration) {
        int type = column.nativeType();
        if (type == DATE) {
            register(column, registration, Date.builder(), 0, PostgresValues::epochDay);
        } else if (type == DATES) {
            SchemaBuilder dates = SchemaBuilder.array(Date.builder().optional().build());
            register(column, registration, dates, List.of(),
                    value -> list(value, ',', PostgresValues::epochDay, character -> character));
        } else if (type == TIMES) {
            SchemaBuilder times = SchemaBuilder.array(MicroTime.builder().optional().build());
            register(column, registration, times, List.of(),
                    value -> list(value, ',', PostgresValues::microseconds, character -> (long) character));
        } else if (type == TIMESTAMPS) {
            SchemaBuilder moments = SchemaBuilder.array(MicroTimestamp.builder().optional().build());
            register(column, registration, moments, List.of(),
                    value -> list(value, ',', PostgresValues::epochMicroseconds, character -> (long) character));
        } else if (type == TIMESTAMPTZS) {
            SchemaBuilder moments = SchemaBuilder.array(ZonedTimestamp.builder().optional().build());
            register(column, registration, moments, List.of(),
                    value -> list(value, ',', PostgresValues::instant, null));
        } else if (type == INT2VECTOR) {
            register(column, registration, SchemaBuilder.array(Schema.OPTIONAL_INT16_SCHEMA), List.of(),
                    value -> vector(value, Short::valueOf));
        } else if (type == OIDVECTOR) {
            register(column, registration, SchemaBuilder.array(Schema.OPTIONAL_INT64_SCHEMA), List.of(),
                    value -> vector(value, Long::valueOf));
        } else if (GEOMETRIC.contains(type)) {
            register(column, registration, SchemaBuilder.string(), "", this::geometric);
        } else if (isArrayOfText(type, column.typeName())) {
            Function<String, Object> element =
                    type == INTERVALS ? PostgresValues::interval : type == MONEYS ? PostgresValues::money : text -> text;
            char delimiter = type == BOXES ? ';' : ',';
            register(column, registration, SchemaBuilder.array(Schema.OPTIONAL_STRING_SCHEMA), List.of(),
                    value -> list(value, delimiter, element, null));
        }
    }

    /**
     * Has a column converted. Where it has no value and must have one, it gets {@code empty}: that is the row before a
     * change, of which the log has the key only.
     */
    private static void register(
            RelationalColumn column, ConverterRegistration<SchemaBuilder> registration, SchemaBuilder schema,
            Object empty, Function<Object, Object> convert) {
        Object missing = column.isOptional() ? null : empty;
        registration.register(schema, value -> value == null ? missing : convert.apply(value));
    }

    private static boolean isArrayOfText(int type, String typeName) {
        String name = typeName.substring(typeName.lastIndexOf('.') + 1).replace("\"", "");
        return name.startsWith("_") && !READ_RIGHT.contains(type) && !OWN_FORM.contains(name);
    }

    /** Days since 1970. What is beyond the type stands for infinity. */
    private static Integer epochDay(Object value) {
        if (value instanceof Integer day) {
            return day;
        }
        if (value instanceof LocalDate date) {
            return inRange(date.toEpochDay());
        }
        if (value instanceof java.sql.Date date) {
            return epochDay(date);
        }
        String text = value.toString();
        if (text.endsWith("infinity")) {
            return text.startsWith("-") ? Integer.MIN_VALUE : Integer.MAX_VALUE;
        }
        boolean beforeChrist = text.endsWith(" BC");
        String[] parts = text.replace(" BC", "").split("-");
        int year = Integer.parseInt(parts[0]);
        return inRange(date(beforeChrist, year, Integer.parseInt(parts[1]), Integer.parseInt(parts[2])));
    }

    /** A date as the driver has it: the parts are PostgreSQL's, whatever calendar was in use at the time. */
    private static Integer epochDay(java.sql.Date value) {
        if (value.getTime() == PGStatement.DATE_POSITIVE_INFINITY) {
            return Integer.MAX_VALUE;
        }
        if (value.getTime() == PGStatement.DATE_NEGATIVE_INFINITY) {
            return Integer.MIN_VALUE;
        }
        GregorianCalendar parts = new GregorianCalendar();
        parts.setTime(value);
        boolean beforeChrist = parts.get(Calendar.ERA) == GregorianCalendar.BC;
        int month = parts.get(Calendar.MONTH) + 1;
        return inRange(date(beforeChrist, parts.get(Calendar.YEAR), month, parts.get(Calendar.DAY_OF_MONTH)));
    }

    /** Microseconds since 1970, at whatever place. What is beyond the type stands for infinity. */
    private static Long epochMicroseconds(String text) {
        if (text.endsWith("infinity")) {
            return text.startsWith("-") ? Long.MIN_VALUE : Long.MAX_VALUE;
        }
        try {
            return Math.addExact(
                    Math.multiplyExact(epochDay(text.replaceFirst(" \\S+", "")).longValue(), 86_400_000_000L),
                    microseconds(text.split(" ")[1]));
        } catch (ArithmeticException beyond) {
            return Long.MAX_VALUE;
        }
    }

    /** A moment in the form of ISO 8601, at UTC; infinity as it is. */
    private static String instant(String text) {
        Matcher offset = OFFSET.matcher(text);
        if (!offset.find()) {
            return text;
        }
        String[] parts = offset.group(2).split(":");
        long seconds = Long.parseLong(parts[0]) * 3600;
        seconds += parts.length > 1 ? Long.parseLong(parts[1]) * 60 : 0;
        seconds += parts.length > 2 ? Long.parseLong(parts[2]) : 0;
        long ahead = offset.group(1).equals("-") ? -seconds : seconds;
        long there = epochMicroseconds(offset.replaceFirst(""));
        long micros = there - ahead * 1_000_000;
        return Instant.ofEpochSecond(Math.floorDiv(micros, 1_000_000L), Math.floorMod(micros, 1_000_000L) * 1_000)
                .toString();
    }

    private static long date(boolean beforeChrist, int year, int month, int day) {
        return LocalDate.of(beforeChrist ? 1 - year : year, month, day).toEpochDay();
    }

    private static Integer inRange(long day) {
        return (int) Math.max(Integer.MIN_VALUE, Math.min(Integer.MAX_VALUE, day));
    }

    /** Microseconds since midnight, of which a day's end has a day's. */
    private static Long microseconds(String text) {
        String[] parts = text.split(":");
        BigDecimal seconds = new BigDecimal(parts[2]).movePointRight(6);
        return (Long.parseLong(parts[0]) * 60 + Long.parseLong(parts[1])) * 60_000_000 + seconds.longValueExact();
    }

    private static String interval(String text) {
        try {
            PGInterval value = new PGInterval(text);
            return Interval.toIsoString(
                    value.getYears(), value.getMonths(), value.getDays(), value.getHours(), value.getMinutes(),
                    BigDecimal.valueOf(value.getSeconds()));
        } catch (SQLException error) {
            throw new IllegalArgumentException("not an interval", error);
        }
    }

    /** An amount as the connector's role has it printed, by the locale C. */
    private static String money(String text) {
        return text.replaceAll("[$,]", "");
    }

    private Object geometric(Object value) {
        if (UnchangedToastedReplicationMessageColumn.isUnchangedToastedValue(value)) {
            return placeholder;
        }
        String text = value instanceof PGobject object ? object.getValue() : value.toString();
        return NUMBER.matcher(text).replaceAll(number -> printed(Double.parseDouble(number.group())));
    }

    /** A number as PostgreSQL prints it: the fewest digits that tell it from its neighbours. */
    static String printed(double value) {
        if (Double.isNaN(value) || Double.isInfinite(value)) {
            return Double.toString(value);
        }
        if (value == 0) {
            return 1 / value < 0 ? "-0" : "0";
        }
        BigDecimal exact = new BigDecimal(value);
        BigDecimal shortest = exact;
        for (int digits = 1; digits <= DIGITS; digits++) {
            shortest = exact.round(new MathContext(digits));
            if (shortest.doubleValue() == value) {
                break;
            }
        }
        shortest = shortest.stripTrailingZeros();
        int exponent = shortest.precision() - shortest.scale() - 1;
        if (PLAIN_ABOVE < exponent && exponent < PLAIN_BELOW) {
            return shortest.toPlainString();
        }
        String digits = shortest.unscaledValue().abs().toString();
        String fraction = digits.length() > 1 ? "." + digits.substring(1) : "";
        String sign = (value < 0 ? "-" : "");
        String power = String.format(Locale.ROOT, "e%s%02d", exponent < 0 ? "-" : "+", Math.abs(exponent));
        return sign + digits.charAt(0) + fraction + power;
    }

    private Object vector(Object value, Function<String, Object> element) {
        if (UnchangedToastedReplicationMessageColumn.isUnchangedToastedValue(value)) {
            return List.of();
        }
        String text = value.toString().trim();
        return text.isEmpty() ? List.of() : List.of(text.split(" +")).stream().map(element).collect(Collectors.toList());
    }

    /** An array's elements. {@code unavailable}: what a character of the placeholder is among them; null: it is one. */
    private Object list(
            Object value, char delimiter, Function<String, Object> element, Function<Integer, Object> unavailable) {
        if (UnchangedToastedReplicationMessageColumn.isUnchangedToastedValue(value)) {
            return unavailable == null
                    ? List.of(placeholder)
                    : placeholder.chars().boxed().map(unavailable).collect(Collectors.toList());
        }
        if (value instanceof List<?> converted) {
            return converted;
        }
        List<Object> elements = new ArrayList<>();
        for (String text : elements(value.toString(), delimiter)) {
            elements.add(text == null ? null : element.apply(text));
        }
        return elements;
    }

    /** The elements in the text of an array; null for a null, and for each list in a list of lists. */
    static List<String> elements(String array, char delimiter) {
        List<String> found = new ArrayList<>();
        int at = array.indexOf('{') + 1;
        while (at < array.length() && array.charAt(at) != '}') {
            StringBuilder element = new StringBuilder();
            boolean quoted = false;
            boolean told = false;
            boolean nested = false;
            int depth = 0;
            for (; at < array.length(); at++) {
                char character = array.charAt(at);
                if (character == '\\') {
                    at++;
                    element.append(array.charAt(at));
                } else if (character == '"') {
                    quoted = !quoted;
                    told = true;
                } else if (!quoted && depth == 0 && (character == delimiter || character == '}')) {
                    break;
                } else {
                    depth += quoted ? 0 : character == '{' ? 1 : character == '}' ? -1 : 0;
                    nested |= depth > 0;
                    element.append(character);
                }
            }
            String text = element.toString();
            found.add(nested || (!told && text.equalsIgnoreCase("NULL")) ? null : text);
            if (at < array.length() && array.charAt(at) == delimiter) {
                at++;
            }
        }
        return found;
    }
}
