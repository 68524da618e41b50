# The jars of a release, beside the tutti.jar that has classes only:
#   tutti-<platform>.jar   classes and both libraries, stripped, which find each other by $ORIGIN;
#                          linked to this distribution: elsewhere the loader names what is missing
#   tutti-sources.jar      for debuggers and editors
#   tutti-javadoc.jar      the documentation
# They are installed as the artifacts org.tutti:tutti of a Maven repository in a folder, and the
# first also as share/java/tutti.jar.
string(TOLOWER "${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}" platform)
set(stripped "${CMAKE_CURRENT_BINARY_DIR}/stripped")
set(packed "${CMAKE_CURRENT_BINARY_DIR}/packed")
set(carried "${packed}/org/tutti/native")
set(needed "${PROJECT_BINARY_DIR}/bindings/packaging/needed-packages")
set(full_jar "${CMAKE_CURRENT_BINARY_DIR}/tutti-${platform}.jar")
set_target_properties(tutti_java PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS tutti_java tutti LIBRARY DESTINATION . COMPONENT jar EXCLUDE_FROM_ALL NAMELINK_SKIP)
add_custom_command(
  OUTPUT "${full_jar}"
  COMMAND "${CMAKE_COMMAND}" -E rm -rf "${packed}" "${stripped}"
  COMMAND "${CMAKE_COMMAND}" --install "${PROJECT_BINARY_DIR}" --component jar --strip
          --prefix "${stripped}"
  COMMAND "${CMAKE_COMMAND}" -E make_directory "${carried}/${platform}"
  COMMAND "${CMAKE_COMMAND}" -E copy "${stripped}/libtutti_java.so"
          "${stripped}/$<TARGET_SONAME_FILE_NAME:tutti>" "${carried}/${platform}"
  COMMAND "${CMAKE_COMMAND}" -E copy "${needed}" "${carried}"
  COMMAND "${CMAKE_COMMAND}" -E copy "${PROJECT_SOURCE_DIR}/LICENSE" "${packed}/META-INF/LICENSE"
  COMMAND "${CMAKE_COMMAND}" -E copy "${jar}" "${full_jar}.new"
  COMMAND "${Java_JAR_EXECUTABLE}" --update --file "${full_jar}.new" -C "${packed}" .
  COMMAND "${CMAKE_COMMAND}" -E rename "${full_jar}.new" "${full_jar}"
  DEPENDS "${jar}" tutti_java tutti "${needed}" tutti_needed_packages
  COMMENT "Packing tutti-${platform}.jar"
  VERBATIM)

set(sources_jar "${CMAKE_CURRENT_BINARY_DIR}/tutti-sources.jar")
add_custom_command(
  OUTPUT "${sources_jar}"
  COMMAND "${Java_JAR_EXECUTABLE}" --create --file "${sources_jar}"
          -C "${CMAKE_CURRENT_SOURCE_DIR}/src" . -C "${CMAKE_CURRENT_BINARY_DIR}/generated" .
  DEPENDS ${java_sources} "${generated}/Native.java" "${generated}/NativeJNI.java"
  COMMENT "Packing tutti-sources.jar"
  VERBATIM)

set(javadoc_jar "${CMAKE_CURRENT_BINARY_DIR}/tutti-javadoc.jar")
set(pages "${CMAKE_CURRENT_BINARY_DIR}/javadoc-pages")
add_custom_command(
  OUTPUT "${javadoc_jar}"
  COMMAND "${CMAKE_COMMAND}" -E rm -rf "${pages}"
  COMMAND "${Java_JAVADOC_EXECUTABLE}" -quiet -Xdoclint:none -notimestamp -d "${pages}"
          --source-path "${CMAKE_CURRENT_SOURCE_DIR}/src:${CMAKE_CURRENT_BINARY_DIR}/generated"
          -subpackages org.tutti -exclude org.tutti.internal
  COMMAND "${Java_JAR_EXECUTABLE}" --create --file "${javadoc_jar}" -C "${pages}" .
  DEPENDS ${java_sources} "${generated}/Native.java" "${generated}/NativeJNI.java"
  COMMENT "Packing tutti-javadoc.jar"
  VERBATIM)

add_custom_target(tutti_java_jar ALL DEPENDS "${full_jar}")
add_dependencies(tutti_java_jar tutti_java_package)
add_custom_target(tutti_java_release ALL DEPENDS "${sources_jar}" "${javadoc_jar}")
add_dependencies(tutti_java_release tutti_java_jar)

set(artifacts "${CMAKE_INSTALL_DATADIR}/maven-repo/org/tutti/tutti/${PROJECT_VERSION}")
install(FILES "${full_jar}" DESTINATION ${CMAKE_INSTALL_DATADIR}/java RENAME tutti.jar OPTIONAL)
install(FILES "${full_jar}" DESTINATION ${artifacts} RENAME tutti-${PROJECT_VERSION}.jar OPTIONAL)
install(FILES "${sources_jar}" DESTINATION ${artifacts}
        RENAME tutti-${PROJECT_VERSION}-sources.jar OPTIONAL)
install(FILES "${javadoc_jar}" DESTINATION ${artifacts}
        RENAME tutti-${PROJECT_VERSION}-javadoc.jar OPTIONAL)
install(FILES pom.xml DESTINATION ${artifacts} RENAME tutti-${PROJECT_VERSION}.pom)
# Without it a range of versions ("[0.1,)") finds none.
file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/maven-metadata.xml" @ONLY CONTENT
"<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<metadata>
  <groupId>org.tutti</groupId>
  <artifactId>tutti</artifactId>
  <versioning>
    <latest>@PROJECT_VERSION@</latest>
    <release>@PROJECT_VERSION@</release>
    <versions>
      <version>@PROJECT_VERSION@</version>
    </versions>
  </versioning>
</metadata>
")
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/maven-metadata.xml"
        DESTINATION ${CMAKE_INSTALL_DATADIR}/maven-repo/org/tutti/tutti)
