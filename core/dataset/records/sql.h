// sql: the dataset of the rows that a query gives on a SQLite database, as tuples of scalars.
//
//   TUTTI_ASSIGN_OR_RETURN(Ref<Dataset> people,
//                          MakeSqlDataset(environment, {.driver_name = "sqlite",
//                                                       .data_source_name = "people.db",
//                                                       .query = "select id, name from people",
//                                                       .output_types = {DType::kInt64,
//                                                                        DType::kBytes}}));
//
// SQLite reads the file itself, from the machine's disk. A row with a value that does not fit its
// dtype (sql_column.h) is one failed element; a query that cannot be run, or goes no further, fails
// once, and the dataset ends with it.
//
// A position is the number of a row, found again by asking the query anew and passing over the rows
// before it; so a call that is called off in the middle of a row begins the query anew with the
// next. The query must give the same rows in the same order each time: say "order by".
#ifndef TUTTI_CORE_DATASET_RECORDS_SQL_H_
#define TUTTI_CORE_DATASET_RECORDS_SQL_H_

#include <string>
#include <vector>

#include "core/base/ref.h"
#include "core/base/status.h"
#include "core/tensor/dtype.h"

namespace tutti {

class Dataset;
class DatasetEnvironment;
struct OpTraits;

struct SqlDatasetOptions {
  std::string driver_name;       // "sqlite"
  std::string data_source_name;  // the database's file
  std::string query;
  std::vector<DType> output_types;  // one for each column
  std::string name = {};
};

Result<Ref<Dataset>> MakeSqlDataset(const Ref<DatasetEnvironment>& environment,
                                    SqlDatasetOptions options);

extern const OpTraits kSqlOp;

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_RECORDS_SQL_H_
