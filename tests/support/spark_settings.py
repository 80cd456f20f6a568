"""What suits Spark for tables of a few hundred rows: compiling well takes longer than they do."""

from typing import Final

SMALL_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a JVM that ends after seconds: a collector with threads of its own takes turns from the tasks."""
FOR_SMALL_TABLES: Final = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
