/* The functions of access.h, after those of the facade. */

%ignore tutti_java::StatusAt;
%ignore tutti_java::DetailAt;
%ignore tutti_java::AddressOf;
%ignore tutti_java::Feature;
%ignore tutti_java::ReleaseObject;
%ignore tutti_java::DlpackHead;
%ignore tutti_java::LeafOf;
%ignore tutti_java::SpecParts;
%include "java/access.h"
