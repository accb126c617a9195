import java.nio.file.*;
import java.util.*;
import java.util.concurrent.Callable;
import java.util.function.Function;

/** Reads expected.tsv, runs checks, prints a line for each and the count at the end. */
public class Checks {
  static final Map<String, String> expected = new LinkedHashMap<>();
  static final Set<String> mine = new LinkedHashSet<>();
  static int passed, failed;

  static void start(String client, String file) throws Exception {
    for (String line : Files.readAllLines(Paths.get(file))) {
      if (line.startsWith("#") || line.isEmpty()) continue;
      String[] p = line.split("\t");
      expected.put(p[0], p[2]);
      if (Arrays.asList(p[1].split(",")).contains(client)) mine.add(p[0]);
    }
  }

  static void check(String name, Callable<?> what, Function<Throwable, String> classOf) {
    String actual, note = "";
    try {
      actual = String.valueOf(what.call());
    } catch (Throwable e) {
      actual = cause(e, classOf);
      note = " (" + e.toString().split("\n", 2)[0] + ")";
    }
    if (!mine.remove(name)) { actual = "not a check of this client, or done twice"; }
    if (actual.equals(expected.get(name))) {
      passed++;
      System.out.println("ok " + name);
    } else {
      failed++;
      System.out.println("FAIL " + name + " expected " + expected.get(name) + " got " + actual + note);
    }
  }

  static String cause(Throwable e) { return cause(e, x -> null); }

  /** The class that counts: of the first cause that is not merely a wrapper. */
  static String cause(Throwable e, Function<Throwable, String> classOf) {
    String n = classOf.apply(e);
    if (n == null) n = e.getClass().getName();
    n = n.substring(Math.max(n.lastIndexOf('.'), n.lastIndexOf('$')) + 1);
    boolean wrapper = n.startsWith("RetriesExhausted") || n.equals("ExecutionException") || n.equals("CompletionException") || n.equals("UncheckedIOException") || n.startsWith("Deferred");
    return wrapper && e.getCause() != null && e.getCause() != e ? cause(e.getCause(), classOf) : n;
  }

  static int end() {
    for (String n : mine) { failed++; System.out.println("FAIL " + n + " expected " + expected.get(n) + " got nothing: not run"); }
    System.out.println(passed + " passed, " + failed + " failed");
    return failed == 0 ? 0 : 1;
  }
}
