package upheaval.services;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;

/**
 * Services without a cluster: {@code upheaval.services.ServiceConsole} reads orders from its standard input and writes
 * what comes of them. Both are frames: one byte kind, int32 length of the body (big-endian), body (little-endian).
 */
public final class ServiceConsole implements Surroundings {
    private final DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out));
    private StateMachine machine;
    private SnapshotReader reader;
    private long time;

    /** Until standard input ends. */
    public static void main(final String[] arguments) throws IOException {
        final ServiceConsole console = new ServiceConsole();
        final DataInputStream in = new DataInputStream(new BufferedInputStream(System.in));
        for (int kind = in.read(); kind >= 0; kind = in.read()) {
            final byte[] body = new byte[in.readInt()];
            in.readFully(body);
            try {
                console.act((char)kind, ByteBuffer.wrap(body).order(ByteOrder.LITTLE_ENDIAN));
            } catch (final DecodeException | RuntimeException error) {
                console.write('e', new byte[0]);
            }
        }
        console.out.flush();
    }

    private void act(final char kind, final ByteBuffer body) throws DecodeException {
        switch (kind) {
            case 'n' -> {
                machine = Services.make(new String(rest(body), StandardCharsets.UTF_8));
                machine.join(this);
                reader = new SnapshotReader(machine);
            }
            case 'q' -> {
                time = body.getLong();
                final long position = body.getLong();
                final Response response = machine.perform(rest(body), position);
                if (response != null) {
                    write('r', response.encode());
                }
            }
            case 'm' -> {
                time = body.getLong();
                final long position = body.getLong();
                machine.onServiceMessage(rest(body), position);
            }
            case 't' -> machine.onTimer(body.getLong(), body.getLong());
            case 'w' -> new SnapshotWriter(message -> write('w', message)).write(machine);
            case 'l' -> {
                reader.accept(rest(body));
                write('l', new byte[] {(byte)(reader.isComplete() ? 1 : 0)});
            }
            default -> throw new IllegalArgumentException("unknown order " + kind);
        }
    }

    @Override
    public long time() {
        return time;
    }

    @Override
    public void offer(final byte[] message) {
        write('o', message);
    }

    @Override
    public void scheduleTimer(final long timerId, final long deadline) {
        write('s', Bytes.allocate(2 * Long.BYTES).putLong(timerId).putLong(deadline).array());
    }

    @Override
    public void cancelTimer(final long timerId) {
        write('c', Bytes.ofLong(timerId));
    }

    private void write(final char kind, final byte[] body) {
        try {
            out.write(kind);
            out.writeInt(body.length);
            out.write(body);
        } catch (final IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static byte[] rest(final ByteBuffer body) {
        return Bytes.next(body, body.remaining());
    }
}
