package upheaval;

import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;

/** What one process of a member runs: all of it, or a part. The media driver is where the archive is. */
enum Component {
    ALL("all"),
    ARCHIVE("archive"),
    CONSENSUS("consensus"),
    SERVICE("service");

    private final String argument;

    Component(final String argument) {
        this.argument = argument;
    }

    /** Throws {@link IllegalArgumentException} for an unknown one. */
    static Component of(final String argument) {
        return Arrays.stream(values()).filter(each -> each.argument.equals(argument)).findFirst().orElseThrow(() ->
            new IllegalArgumentException("unknown component '" + argument + "': use "
                + Arrays.stream(values()).map(each -> each.argument).collect(Collectors.joining(", "))));
    }

    /** Those of the same member that are processes of their own. */
    List<Component> siblings() {
        return this == ALL ? List.of() : Arrays.stream(values()).filter(each -> each != ALL && each != this).toList();
    }

    boolean hasArchive() {
        return this == ALL || this == ARCHIVE;
    }

    boolean hasModule() {
        return this == ALL || this == CONSENSUS;
    }

    boolean hasServices() {
        return this == ALL || this == SERVICE;
    }

    /** As the trace names it: a member with its components apart has one service. */
    String traced() {
        return this == SERVICE ? "service-0" : argument;
    }

    @Override
    public String toString() {
        return argument;
    }
}
