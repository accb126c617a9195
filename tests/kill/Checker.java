import java.io.*;
import java.nio.file.*;
import java.util.*;

/**
 * Judges a journal: what was asked of the server, what it acknowledged and what was read back. Knows nothing of HBase; no threads, no clock.
 *
 * A journal's lines, ids being unique and growing:
 *   put ID ROW        both families of ROW get the value ID          delete ID ROW     the whole row
 *   increment ID ROW  both families by one                           append ID ROW     "ID," at the end of the value
 *   ok ID [RESULT]    acknowledged, with the value that an increment or append returned
 *   failed ID         refused: must have no effect                   unknown ID        no answer: may or may not have its effect
 *   read ROW F G      a row read while nothing was under way ("-": no cell)            scan ROW F G      the same by a scan
 *   count ROW F G     a counter                                      text ROW VALUE    the target of appends
 * On one row only increments may be under way at the same time, and those only where their names begin with "shared".
 */
public class Checker {
  static final String ABSENT = "-";

  static class Op {
    String kind, row, outcome;
    long id;
  }

  /** What a row may hold: put rows and append rows by sets of values, counters by a range. */
  static class Row {
    Set<String> possible = new LinkedHashSet<>(Collections.singleton(ABSENT));
    Map<Long, Op> puts = new HashMap<>();
    Set<String> ruledOut = new HashSet<>();
    String read;
    long low, high;
  }

  final Map<String, Row> rows = new HashMap<>();
  final Map<Long, Op> ops = new HashMap<>();
  final List<String> faults = new ArrayList<>();
  long acknowledged, unknown, refused, reads;

  Row row(String name) { return rows.computeIfAbsent(name, k -> new Row()); }
  void fault(String kind, String what) { faults.add(kind + ": " + what); }

  void line(String line) {
    if (line.isEmpty() || line.startsWith("#")) return;
    String[] p = line.split(" ", -1);
    switch (p[0]) {
      case "put": case "delete": case "increment": case "append": {
        Op op = new Op();
        op.kind = p[0];
        op.id = Long.parseLong(p[1]);
        op.row = p[2];
        ops.put(op.id, op);
        Row r = row(op.row);
        if (op.kind.equals("put")) r.puts.put(op.id, op);
        // Until its outcome is known it may have its effect: a read never waits for it.
        mayHappen(op, r);
        break;
      }
      case "ok": ok(ops.get(Long.parseLong(p[1])), p.length > 2 ? p[2] : null); break;
      case "failed": failed(ops.get(Long.parseLong(p[1]))); break;
      case "unknown": ops.get(Long.parseLong(p[1])).outcome = "unknown"; unknown++; break;
      case "read": read(p[1], p[2], p[3], row(p[1])); break;
      case "scan":
        if (!(p[2] + " " + p[3]).equals(row(p[1]).read)) fault("scan differs", p[1] + " got " + row(p[1]).read + ", scanned " + p[2] + " " + p[3]);
        break;
      case "count": count(p[1], p[2], p[3], row(p[1])); break;
      case "text": text(p[1], p[2], row(p[1])); break;
      default: throw new IllegalArgumentException("not a journal line: " + line);
    }
  }

  /** Adds an operation's effect to what the row may hold, and keeps what it held before. */
  void mayHappen(Op op, Row r) {
    switch (op.kind) {
      case "put": r.possible.add("" + op.id); break;
      case "delete": r.possible.add(ABSENT); break;
      case "increment": r.high++; break;
      case "append":
        for (String s : new ArrayList<>(r.possible)) r.possible.add((s.equals(ABSENT) ? "" : s) + op.id + ",");
        break;
    }
  }

  void ok(Op op, String result) {
    Row r = row(op.row);
    op.outcome = "ok";
    acknowledged++;
    switch (op.kind) {
      case "put": rule(r, "" + op.id); break;
      case "delete": rule(r, ABSENT); break;
      case "increment":
        r.low++;
        if (result == null || op.row.startsWith("shared")) break;
        long value = Long.parseLong(result);
        if (value < r.low) fault("lost increment", op.row + " returned " + value + ", at least " + r.low + " acknowledged");
        if (value > r.high) fault("doubled increment", op.row + " returned " + value + ", at most " + r.high + " asked for");
        r.low = r.high = value;
        break;
      case "append":
        r.possible.removeIf(s -> !s.endsWith(op.id + ","));
        if (result == null) break;
        if (!r.possible.contains(result)) appendFault(op.row, result, r);
        r.possible = new LinkedHashSet<>(Collections.singleton(result));
        break;
    }
  }

  void failed(Op op) {
    Row r = row(op.row);
    op.outcome = "failed";
    refused++;
    if (op.kind.equals("put")) r.possible.remove("" + op.id);
    else if (op.kind.equals("increment")) r.high--;
    else if (op.kind.equals("append")) r.possible.removeIf(s -> s.endsWith(op.id + ","));
    else throw new IllegalArgumentException("a refused delete cannot be told from one that found nothing");
  }

  /** From now on the row holds exactly this. */
  void rule(Row r, String value) {
    r.ruledOut.addAll(r.possible);
    r.ruledOut.remove(value);
    r.possible = new LinkedHashSet<>(Collections.singleton(value));
  }

  void read(String name, String f, String g, Row r) {
    reads++;
    r.read = f + " " + g;
    if (!f.equals(g)) { fault("half row", name + " f=" + f + " g=" + g + ", may hold " + r.possible); return; }
    if (!r.possible.contains(f)) {
      Op put = f.equals(ABSENT) ? null : r.puts.get(f.matches("[0-9]+") ? Long.parseLong(f) : -1);
      String kind = f.equals(ABSENT) ? "lost write" : put == null ? "unknown value" : "failed".equals(put.outcome) ? "refused write applied"
        : r.possible.equals(Collections.singleton(ABSENT)) && "ok".equals(put.outcome) ? "deleted row came back"
        : "unknown".equals(put.outcome) && r.ruledOut.contains(f) ? "late effect" : "lost write";
      fault(kind, name + " holds " + f + ", may hold " + r.possible);
    }
    rule(r, f);
  }

  void count(String name, String f, String g, Row r) {
    reads++;
    if (!f.equals(g)) { fault("half row", name + " f=" + f + " g=" + g); return; }
    long value = f.equals(ABSENT) ? 0 : Long.parseLong(f);
    if (value < r.low) fault("lost increment", name + " is " + value + ", at least " + r.low + " acknowledged");
    if (value > r.high) fault("doubled increment", name + " is " + value + ", at most " + r.high + " asked for");
    r.low = r.high = value;
  }

  void text(String name, String value, Row r) {
    reads++;
    if (!r.possible.contains(value)) appendFault(name, value, r);
    r.possible = new LinkedHashSet<>(Collections.singleton(value));
  }

  void appendFault(String name, String value, Row r) {
    List<String> parts = Arrays.asList(value.equals(ABSENT) ? new String[0] : value.split(","));
    fault(new HashSet<>(parts).size() < parts.size() ? "doubled append" : "lost append", name + " is " + value + ", may be " + r.possible);
  }

  /** {@code Checker JOURNAL}: prints the faults; or {@code Checker --self-test HISTORIES}: each history must give exactly its fault. */
  public static void main(String[] args) throws IOException {
    int passed = 0, failed = 0;
    if (args[0].equals("--self-test")) {
      String name = null;
      Checker checker = null;
      List<String> lines = new ArrayList<>(Files.readAllLines(Paths.get(args[1])));
      lines.add("== end");
      for (String line : lines) {
        if (!line.startsWith("== ")) { if (checker != null) checker.line(line); continue; }
        if (name != null) {
          String wanted = name.substring(name.indexOf("=> ") + 3);
          Set<String> kinds = new TreeSet<>();
          for (String f : checker.faults) kinds.add(f.substring(0, f.indexOf(':')));
          boolean right = wanted.equals("right") ? kinds.isEmpty() : kinds.equals(Collections.singleton(wanted));
          System.out.println((right ? "ok " : "FAIL ") + name + (right ? "" : " got " + checker.faults));
          if (right) passed++; else failed++;
        }
        name = line.substring(3);
        checker = new Checker();
      }
    } else {
      Checker checker = new Checker();
      try (BufferedReader in = Files.newBufferedReader(Paths.get(args[0]))) {
        for (String line; (line = in.readLine()) != null;) checker.line(line);
      }
      for (String f : checker.faults) System.out.println("FAIL " + f);
      System.out.println(checker.acknowledged + " acknowledged, " + checker.refused + " refused, " + checker.unknown + " unknown, " + checker.reads + " read back");
      passed = checker.faults.isEmpty() ? 1 : 0;
      failed = checker.faults.size();
    }
    System.out.println(passed + " passed, " + failed + " failed");
    System.exit(failed == 0 ? 0 : 1);
  }
}
