// Flink beside the mirror: runs the statements of a folder until it is killed. `java Job FOLDER sql|changelog`
//
// sql: every statement of insert.sql is one INSERT of a common job.
// changelog: every query of *.query gives rows whose last column is Debezium's letter; they go into the table that the
// first line names, upserted by the columns that it names too, and a delete deletes.

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.StatementSet;
import org.apache.flink.table.api.Table;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.data.RowData;
import org.apache.flink.types.RowKind;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.flink.CatalogLoader;
import org.apache.iceberg.flink.TableLoader;
import org.apache.iceberg.flink.sink.FlinkSink;

public class Job {
  public static void main(String[] args) throws Exception {
    Path folder = Path.of(args[0]);
    Configuration settings = Configuration.fromMap(properties(folder.resolve("flink.properties")));
    StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(settings);
    StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
    for (String statement : statements(folder.resolve("setup.sql"))) {
      tables.executeSql(statement);
    }
    if (args[1].equals("sql")) {
      StatementSet inserts = tables.createStatementSet();
      statements(folder.resolve("insert.sql")).forEach(inserts::addInsertSql);
      inserts.execute().await();
      return;
    }
    CatalogLoader catalog = CatalogLoader.rest(
        "lake", new org.apache.hadoop.conf.Configuration(), properties(folder.resolve("catalog.properties")));
    try (var queries = Files.newDirectoryStream(folder, "*.query")) {
      for (Path path : queries) {
        upsert(tables, catalog, Files.readString(path));
      }
    }
    environment.execute("bench");
  }

  private static void upsert(StreamTableEnvironment tables, CatalogLoader catalog, String text) throws Exception {
    String[] parts = text.split("\n", 2);
    String[] words = parts[0].split(" ");
    Table query = tables.sqlQuery(parts[1]);
    int last = query.getResolvedSchema().getColumnCount() - 1;
    DataStream<RowData> rows =
        tables.toDataStream(query, query.getResolvedSchema().toPhysicalRowDataType().bridgedTo(RowData.class));
    DataStream<RowData> changes = rows.map(new Marked(last)).returns(rows.getType());
    FlinkSink.forRowData(changes)
        .tableLoader(TableLoader.fromCatalog(catalog, TableIdentifier.parse(words[0])))
        .equalityFieldColumns(Arrays.asList(words[1].split(",")))
        .upsert(true)
        .uidPrefix(words[0])
        .append();
  }

  /** Gives a row the kind that its last column says. Iceberg's writer doesn't look at that column. */
  public static class Marked implements MapFunction<RowData, RowData> {
    private final int column;

    public Marked(int column) {
      this.column = column;
    }

    @Override
    public RowData map(RowData row) {
      row.setRowKind(row.getString(column).toString().equals("d") ? RowKind.DELETE : RowKind.UPDATE_AFTER);
      return row;
    }
  }

  private static List<String> statements(Path path) throws Exception {
    return Arrays.stream(Files.readString(path).split(";\n")).filter(text -> !text.isBlank()).toList();
  }

  private static Map<String, String> properties(Path path) throws Exception {
    Properties read = new Properties();
    try (var reader = Files.newBufferedReader(path)) {
      read.load(reader);
    }
    Map<String, String> found = new HashMap<>();
    read.forEach((name, value) -> found.put((String) name, (String) value));
    return found;
  }
}
