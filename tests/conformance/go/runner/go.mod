module conformance

go 1.19

require tutti.dev/tutti v0.0.0

replace tutti.dev/tutti => ../../../../build/release/bindings/go/tutti
