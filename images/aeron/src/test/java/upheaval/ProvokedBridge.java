package upheaval;

import io.aeron.cluster.client.AeronCluster;
import org.agrona.DirectBuffer;

/**
 * A bridge whose clients throw in {@code offer}, or in the next {@code poll}, where a request of that text tells them to,
 * and in every {@code close}, or refuse a request without a word. For the endpoints {@code missing} there is no class of a
 * client, for {@code null} none.
 */
public final class ProvokedBridge {
    private ProvokedBridge() {
    }

    /** As {@link Bridge}. */
    public static void main(final String[] arguments) throws Exception {
        Bridge.run(arguments, ProvokedBridge::connect);
    }

    private static Client connect(final AeronCluster.Context context, final Client.Listener listener) {
        return switch (context.ingressEndpoints()) {
            case "missing" -> throw new NoClassDefFoundError("desk/Client");
            case "null" -> null;
            default -> new Provoked(new ClusterClient(context, listener));
        };
    }

    private static final class Provoked implements Client {
        private final Client client;
        private boolean isPollDue;

        Provoked(final Client client) {
            this.client = client;
        }

        @Override
        public int poll() {
            if (isPollDue) {
                throw new IllegalStateException("poll");
            }
            return client.poll();
        }

        @Override
        public boolean isConnected() {
            return client.isConnected();
        }

        @Override
        public long offer(final DirectBuffer buffer, final int offset, final int length) {
            switch (buffer.getStringWithoutLengthAscii(offset, length)) {
                case "offer" -> throw new IllegalStateException("offer");
                case "poll" -> isPollDue = true;
                case "deep" -> throw new StackOverflowError();
                case "refuse" -> throw new IllegalArgumentException();
                default -> {
                }
            }
            return client.offer(buffer, offset, length);
        }

        @Override
        public void close() {
            client.close();
            throw new NoClassDefFoundError("desk/Close");
        }
    }
}
