package upheaval.services;

import java.util.Map;
import java.util.TreeMap;
import java.util.function.Supplier;

/** The services by their names. */
public final class Services {
    private static final Map<String, Supplier<StateMachine>> BY_NAME =
        new TreeMap<>(Map.of("workbench", Workbench::new, "ledger", Ledger::new, "timers", Timers::new));

    private Services() {
    }

    /** A new one. Throws {@link IllegalArgumentException} for an unknown name. */
    public static StateMachine make(final String name) {
        final Supplier<StateMachine> found = BY_NAME.get(name);
        if (found == null) {
            throw new IllegalArgumentException(
                "unknown service '" + name + "': use " + String.join(", ", BY_NAME.keySet()));
        }
        return found.get();
    }
}
