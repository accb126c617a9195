import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;

/** Reads `string<TAB>hex` and `long<TAB>number` lines, answers with Java's own hashCode. */
public class Golden {
    public static void main(String[] args) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            String[] parts = line.split("\t", -1);
            switch (parts[0]) {
                case "string" -> System.out.println(
                        new String(HexFormat.of().parseHex(parts[1]), StandardCharsets.UTF_8).hashCode());
                case "bytes" -> System.out.println(Arrays.hashCode(HexFormat.of().parseHex(parts[1])));
                default -> System.out.println(Long.valueOf(parts[1]).hashCode());
            }
        }
    }
}
