import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;

/**
 * Writes golden.tsv: whether patterns are found in values, as HBase's RegexStringComparator asks java.util.regex.
 *
 *   java -Dstdout.encoding=UTF-8 Golden.java > golden.tsv        (Java 17)
 *
 * Lines "value", number, charset, bytes in hexadecimal; lines "pattern", flags, charset, pattern in hexadecimal, one digit (1: found) for each
 * value of that charset in order, and the pattern to be read by people.
 */
public class Golden {
  static final int I = Pattern.CASE_INSENSITIVE, U = Pattern.UNICODE_CASE, W = Pattern.UNICODE_CHARACTER_CLASS, S = Pattern.DOTALL, M = Pattern.MULTILINE,
      D = Pattern.UNIX_LINES, X = Pattern.COMMENTS, L = Pattern.LITERAL;

  static final String[] VALUES = { "", "a", "A", "abc", "ABC def", "café", "CAFÉ", "x1_9", "٣", "12345", " ", "\u00a0", "\u180e", "\t", "\u000b", "a\nb", "a\rb", "a\r\nb",
      "a\u0085b", "a\u2028b", "b\n", "b\r\n", "b\n\n", "b\u2029", "$5.00", "a-b", "a&b", "[x]", "a]b", "{3}", "a.b", "a+b", "a*b", "q\\w", "k", "K", "\u212a", "σ", "ς", "Σ", "ß",
      "中文", "😀", "😁!", "\u200d", "\u0007", "\u001b", "\u0001", "aa", "aaa", "aabb", "row-0001", "row-0100|x", "user@example.org", "ＡＢ", "é", "\u0000", "#x", "a b", "\u2003" };

  static final List<Object[]> PATTERNS = new ArrayList<>();

  static void p(int flags, String... patterns) {
    for (String pattern : patterns) PATTERNS.add(new Object[] { flags, "UTF-8", pattern });
  }

  static void charset(String charset, String... patterns) {
    for (String pattern : patterns) PATTERNS.add(new Object[] { S, charset, pattern });
  }

  static String hex(byte[] bytes) {
    StringBuilder out = new StringBuilder();
    for (byte b : bytes) out.append(String.format("%02x", b));
    return out.toString();
  }

  /** Values as bytes: of UTF-8 those above and some that are no text; of the others all bytes by turns. */
  static List<byte[]> values(String charset) {
    List<byte[]> values = new ArrayList<>();
    for (String value : VALUES) values.add(value.getBytes(Charset.forName(charset)));
    values.add(new byte[] { 'a', (byte) 0xff, 'b' });
    values.add(new byte[] { (byte) 0xc3 });
    values.add(new byte[] { (byte) 0xe4, (byte) 0xb8, 'x' });
    values.add(new byte[] { 0, 'a', 0 });
    values.add(new byte[] { (byte) 0xff, (byte) 0xfe, 'a', 0 });
    values.add(new byte[] { (byte) 0xd8, 0, 0, 'a', 0, 'b' });
    return values;
  }

  static void patterns() {
    for (int flags : new int[] { 0, S, W, W | S, D }) p(flags, ".", "^.$", "a.b", "a..b", "^a.*b$", "b$", "b\\Z", "b\\z", "^$", "\\Ab", "\\Gb", "^b");
    for (int flags : new int[] { M, M | D }) p(flags, "^b", "a$", "^a$", "^b$");
    for (int flags : new int[] { 0, I, I | U, W, W | I })
      p(flags, "\\d", "\\D", "\\w", "\\W", "\\s", "\\S", "\\h", "\\H", "\\v", "\\V", "^\\w+$", "^\\W+$", "[\\d-]", "[^\\w\\s]", "[\\W&&\\S]", "\\bb\\b", "\\bcaf\\b", "\\bcaf",
          "\\B", "\\R", "a\\Rb", "\\p{Lower}", "\\p{Upper}", "\\p{ASCII}", "\\p{Alpha}", "\\p{Digit}", "\\p{Alnum}", "\\p{Punct}", "\\p{Graph}", "\\p{Print}", "\\p{Blank}",
          "\\p{Cntrl}", "\\p{XDigit}", "\\p{Space}", "\\P{Alpha}", "^\\P{Alpha}", "[\\p{Alpha}\\p{Digit}]", "[^\\p{Alpha}]", "\\p{L}", "\\pL", "\\p{Lu}", "\\p{Ll}", "\\p{IsL}", "\\p{Nd}", "\\p{gc=Lu}",
          "\\p{IsAlphabetic}", "\\p{IsLowercase}", "\\p{IsUppercase}", "\\p{IsWhite_Space}", "\\p{IsDigit}", "\\p{IsPunctuation}", "\\p{IsControl}", "\\p{IsHex_Digit}", "\\p{IsIdeographic}",
          "\\p{IsLetter}", "\\p{IsTitlecase}", "\\p{IsAlnum}", "\\p{IsBlank}", "\\p{IsGraph}", "\\p{IsPrint}", "\\p{IsWord}", "\\p{IsAssigned}", "\\p{IsJoin_Control}", "\\p{IsGreek}", "\\p{IsLatin}",
          "\\p{script=Greek}", "\\p{sc=Latn}", "\\p{LC}", "\\p{LD}", "\\p{L1}", "\\p{all}", "\\p{Sc}", "\\p{So}", "\\p{Cf}", "\\p{Cs}", "a", "abc", "[a-c]+", "[^a-c]", "[A-C]{3}", "[a-c&&[^b]]", "[a-z&&[def]]", "[a-z&&b-d]",
          "[^a-z&&x]", "[a-d[x-z]]", "[]a]", "[^]a]", "[a-]", "[-a]", "[a&b]", "[$.+*]", "[\\[\\]]", "café", "[é]", "k", "[k]", "[^k]", "[j-l]", "σ", "[σ]", "(?i)abc", "a(?i)B|C", "(a(?i)b)C",
          "(?i:a)B", "(?-i:a)", "(?i:a)(?-i:b)c");
    p(0, "\\Qa.b\\E", "\\Q[x]", "\\Qa\\E+$", "[\\Qa]\\E]", "q\\\\w", "\\$5\\.00", "\\x41", "\\x{1F600}", "\\u0041", "\\uD83D\\uDE00", "[\\uD83D\\uDE00-\\uD83D\\uDE02]", "\\0101", "\\07", "\\cA", "\\e", "\\a", "\\t",
        "\\n", "\\r", "\\f", "a|b", "(a|b)+c", "(?:ab)?c", "(?<name>a)b", "a*?b", "a+?b", "a??b", "a{2}", "a{2,}", "a{2,3}b", "^a{3}$", "a{2}?", "x{0}", "^row-\\d{4}$", "row-(\\d+)\\|", "[\\w.]+@[\\w.]+\\.org", "|", "()",
        "^(a|)$", "😀", "[😀-😂]", "\\-", "a\\-b", "\\#", "]", "}", "中", "^[\\u4e00-\\u9fff]+$", "[^\\n]", "[\\x00-\\x1f]", "^\\p{ASCII}*$", "(?s).", "(?s)a.b", "(?m)^b", "(?d)a.b", "(?u)k", "(?iu)k", "(?U)\\w", "(?x) a b c # remark",
        "(?x)[a b]", "(?x)a {2}", "(?x)\\ ", "(?is)A.B", "(?i-s)A.B", "\ufffd", "[a-c]{1,2}-", "(((a)))");
    p(X, "a b", "a\\ b", " a # b", "[ a b ]x?1", "# x", "a{2} b");
    p(L, "a.b", "a*b", "$5.00", "\\d", "\\Qa\\E");
    p(L | I, "abc", "CAFé", "A.B");
    p(L | I | U, "CAFé", "Σ");
    for (String charset : new String[] { "ISO-8859-1", "US-ASCII", "UTF-16", "UTF-16BE", "UTF-16LE" })
      charset(charset, "a", "^a.b$", "é", "\\xe9", "\ufffd", "[\\x80-\\xff]", "^.{4}$", "中", "b$", "😀", "^.$", "\\w");
  }

  public static void main(String[] args) {
    patterns();
    for (String charset : new String[] { "UTF-8", "ISO-8859-1", "US-ASCII", "UTF-16", "UTF-16BE", "UTF-16LE" }) {
      int number = 0;
      for (byte[] value : values(charset)) System.out.println("value\t" + number++ + "\t" + charset + "\t" + hex(value));
    }
    for (Object[] one : PATTERNS) {
      Pattern pattern = Pattern.compile((String) one[2], (Integer) one[0]);
      Charset charset = Charset.forName((String) one[1]);
      StringBuilder found = new StringBuilder();
      for (byte[] value : values((String) one[1])) found.append(pattern.matcher(new String(value, 0, value.length, charset)).find() ? '1' : '0');
      String shown = ((String) one[2]).chars().mapToObj(c -> c < 32 || c > 126 ? String.format("<%04x>", c) : String.valueOf((char) c)).reduce("", String::concat);
      System.out.println("pattern\t" + one[0] + "\t" + one[1] + "\t" + hex(((String) one[2]).getBytes(StandardCharsets.UTF_8)) + "\t" + found + "\t" + shown);
    }
  }
}
