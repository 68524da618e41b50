# tutti_proto: the messages of proto/tutti/v1/, generated at build time. A source includes them as
# "tutti/v1/<name>.pb.h"; no header of ours does, because each costs seconds to compile.

find_package(Protobuf REQUIRED)
file(GLOB tutti_proto_files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/proto/tutti/v1/*.proto")

if(tutti_proto_files)
  set(tutti_proto_generated "${PROJECT_BINARY_DIR}/proto")
  file(MAKE_DIRECTORY "${tutti_proto_generated}")
  add_library(tutti_proto STATIC ${tutti_proto_files})
  protobuf_generate(TARGET tutti_proto LANGUAGE cpp
                    IMPORT_DIRS "${PROJECT_SOURCE_DIR}/proto"
                    PROTOC_OUT_DIR "${tutti_proto_generated}")
  target_include_directories(tutti_proto SYSTEM PUBLIC "${tutti_proto_generated}")
  target_link_libraries(tutti_proto PUBLIC protobuf::libprotobuf-lite)
else()
  add_library(tutti_proto INTERFACE)
  target_link_libraries(tutti_proto INTERFACE protobuf::libprotobuf-lite)
endif()
