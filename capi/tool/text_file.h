// Small files, read and written whole.

#ifndef TUTTI_CAPI_TOOL_TEXT_FILE_H_
#define TUTTI_CAPI_TOOL_TEXT_FILE_H_

#include <string>

namespace tutti::tool {

// These give what went wrong, "cannot read x.json: No such file or directory"; "" when all is well.
// Of a regular file; others, of which some could be waited for for ever, are refused.
std::string ReadTextFile(const std::string& path, std::string* contents);
// Under another name first: who reads it sees the former contents or all of the new ones. Symbolic
// links are followed. What is no regular file (/dev/null, a FIFO), and what standard output goes to
// (/dev/stdout), is written as it is and stays what it is; a FIFO must have a reader soon.
std::string WriteTextFile(const std::string& path, const std::string& contents);
// Whether WriteTextFile could, without touching anything.
std::string CheckCanWriteTextFile(const std::string& path);

}  // namespace tutti::tool

#endif  // TUTTI_CAPI_TOOL_TEXT_FILE_H_
