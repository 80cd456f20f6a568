package upheaval;

import io.aeron.archive.Archive;
import io.aeron.cluster.ConsensusModule;
import io.aeron.cluster.service.ClusteredServiceContainer;
import io.aeron.driver.MediaDriver;
import java.util.HashMap;
import java.util.Map;

/** What a program of the user's calls in the place of Aeron's {@code launch} methods, which are all ways in. */
public final class Launches {
    /** Aeron's methods as class files name them, and the methods here that take their place. */
    static final Map<String, String> METHODS = new HashMap<>();

    static {
        replace("io/aeron/driver/MediaDriver", "driver");
        replace("io/aeron/archive/Archive", "archive");
        replace("io/aeron/cluster/ConsensusModule", "module");
        replace("io/aeron/cluster/service/ClusteredServiceContainer", "service");
    }

    private Launches() {
    }

    private static void replace(final String component, final String method) {
        METHODS.put(component + ".launch:(L" + component + "$Context;)L" + component + ";", method);
    }

    public static MediaDriver driver(final MediaDriver.Context context) {
        return Holder.MEMBER.launched(() -> {
            Holder.MEMBER.prepare(context);
            return MediaDriver.launch(context);
        });
    }

    public static Archive archive(final Archive.Context context) {
        return Holder.MEMBER.launched(() -> {
            Holder.MEMBER.prepare(context);
            return Archive.launch(context);
        });
    }

    public static ConsensusModule module(final ConsensusModule.Context context) {
        return Holder.MEMBER.launched(() -> {
            Holder.MEMBER.prepare(context);
            return ConsensusModule.launch(context);
        });
    }

    public static ClusteredServiceContainer service(final ClusteredServiceContainer.Context context) {
        return Holder.MEMBER.launched(() -> {
            Holder.MEMBER.prepare(context);
            return ClusteredServiceContainer.launch(context);
        });
    }

    /** Made with the first component: other virtual machines of the program have no Aeron. */
    private static final class Holder {
        static final LaunchedMember MEMBER = new LaunchedMember(Agent.config);
    }
}
