package kinds;

import io.aeron.ControlledFragmentAssembler;
import io.aeron.ExclusivePublication;
import io.aeron.Image;
import io.aeron.logbuffer.BufferClaim;
import io.aeron.logbuffer.ControlledFragmentHandler.Action;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * A right service with a snapshot of binary messages of a fixed layout, one of them longer than a packet: a head of
 * (int16 block length, int16 template), then the block. It reads until the stream ends.
 */
public final class Parcels extends Accounts {
    private static final int HEAD = 4;
    private static final int LINE = 1;
    private static final int FILLER = 2;
    private static final int FILLER_LENGTH = 20_000;

    @Override
    public void onTakeSnapshot(final ExclusivePublication publication) {
        final BufferClaim claim = new BufferClaim();
        for (final String line : lines()) {
            final byte[] bytes = line.getBytes(StandardCharsets.UTF_8);
            while (publication.tryClaim(HEAD + bytes.length, claim) < 0) {
                cluster.idleStrategy().idle();
            }
            claim.buffer().putShort(claim.offset(), (short)bytes.length, ByteOrder.LITTLE_ENDIAN);
            claim.buffer().putShort(claim.offset() + 2, (short)LINE, ByteOrder.LITTLE_ENDIAN);
            claim.buffer().putBytes(claim.offset() + HEAD, bytes);
            claim.commit();
        }
        final UnsafeBuffer filler = new UnsafeBuffer(new byte[FILLER_LENGTH]);
        filler.putShort(2, (short)FILLER, ByteOrder.LITTLE_ENDIAN);
        while (publication.offer(filler) < 0) {
            cluster.idleStrategy().idle();
        }
    }

    @Override
    protected void load(final Image image) {
        final ControlledFragmentAssembler assembler = new ControlledFragmentAssembler((buffer, offset, length, header) -> {
            if (buffer.getShort(offset + 2, ByteOrder.LITTLE_ENDIAN) == LINE) {
                restore(buffer.getStringWithoutLengthUtf8(offset + HEAD, length - HEAD).split(" "));
            } else if (length != FILLER_LENGTH) {
                throw new IllegalStateException("a parcel of " + length + " bytes");
            }
            return Action.CONTINUE;
        });
        while (!image.isEndOfStream()) {
            cluster.idleStrategy().idle(image.controlledPoll(assembler, 10));
        }
    }
}
