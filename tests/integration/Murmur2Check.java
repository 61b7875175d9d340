import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Scanner;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;

/** Reads "count base64-of-key" lines and prints the partition that Kafka's own producer picks. */
public class Murmur2Check {
    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in, StandardCharsets.US_ASCII);
        StringBuilder answers = new StringBuilder();
        while (lines.hasNextLine()) {
            String[] fields = lines.nextLine().split(" ", -1);
            byte[] key = Base64.getDecoder().decode(fields[1]);
            int partition = BuiltInPartitioner.partitionForKey(key, Integer.parseInt(fields[0]));
            answers.append(partition).append('\n');
        }
        System.out.print(answers);
    }
}
