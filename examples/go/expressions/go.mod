module expressions

go 1.19

require tutti.dev/tutti v0.0.0

// The module that the library's build makes; with a release this line goes.
replace tutti.dev/tutti => ../../../build/release/bindings/go/tutti
