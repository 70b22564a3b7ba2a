// Package typecheck holds programs that must not compile, with the compiler's
// messages. The messages are part of the library's interface: they are what a user
// reads when a program's answer would depend on timing.
//
// The programs are in testdata, each with its messages; the flag -update rewrites
// the messages. Each new guarantee of the type system needs a program here that
// violates it.
package typecheck
