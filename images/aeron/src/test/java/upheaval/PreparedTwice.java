package upheaval;

import io.aeron.cluster.ConsensusModule;
import io.aeron.cluster.service.Cluster;
import io.aeron.cluster.service.ClusteredServiceContainer;
import java.io.File;
import java.lang.reflect.Proxy;
import java.nio.file.Path;

/**
 * Contexts of a program that launches them once more: {@code upheaval.PreparedTwice FILE}, with a member's properties. Prints
 * what the program's own handlers and hooks hear.
 */
public final class PreparedTwice {
    private PreparedTwice() {
    }

    public static void main(final String[] arguments) throws Exception {
        final MemberConfig config = new MemberConfig(Path.of(arguments[0]));
        final LaunchedMember member = new LaunchedMember(config);
        final ClusteredServiceContainer.Context container = new ClusteredServiceContainer.Context()
            .clusteredService(new ProvokedService())
            .errorHandler(error -> System.out.println("error"));
        final ConsensusModule.Context module = new ConsensusModule.Context()
            .clusterMemberId(config.memberId)
            .clusterMembers(config.members)
            .clusterDir(new File(config.folder.toFile(), "cluster"))
            .terminationHook(() -> System.out.println("hook"));
        for (int launch = 0; launch < 2; launch++) {
            member.prepare(module);
            member.prepare(container);
        }
        container.errorHandler().onError(new IllegalStateException("once"));
        container.clusteredService().onTerminate((Cluster)Proxy.newProxyInstance(
            Cluster.class.getClassLoader(), new Class<?>[]{Cluster.class}, (proxy, method, values) -> 64L));
        module.terminationHook().run();
    }
}
