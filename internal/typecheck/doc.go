// Package typecheck holds programs that must not compile, and what the compiler
// says about each. The messages are part of the library's interface: they are what
// a user reads when a program's answer would depend on timing.
//
// The programs are in testdata, each with the compiler's words; the flag -update
// rewrites the words. A new promise of the type system comes with a program here
// that breaks it.
package typecheck
