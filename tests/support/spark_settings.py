"""What suits Spark for tables of a few hundred rows: compiling well takes longer than they do."""

from typing import Final

FOR_SMALL_TABLES: Final = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
