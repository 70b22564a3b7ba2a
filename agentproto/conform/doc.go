// Package conform tells whether a tool server or a runtime keeps to the agent tool
// protocol: the conformance cases of doc/protocol.md §14, as code.
//
// A tool server is judged from outside. The package plays the runtime, with a
// callback endpoint on loopback whose answers follow a script, and the user's
// browser:
//
//	report, err := conform.RunTool(ctx, conform.ToolTarget{Profile: conform.ToolProfile{
//		URL: "http://127.0.0.1:8801",
//		Roles: map[string]conform.Role{
//			"echo": {Operation: "echo", Arguments: json.RawMessage(`{"text":"$TEXT"}`)},
//		},
//	}}, conform.Options{})
//	if err != nil {
//		log.Fatal(err)
//	}
//	report.WriteTable(os.Stdout)
//	os.Exit(report.ExitCode())
//
// In a test of one's own server, [TestTool] makes a subtest of each case. The
// command millrace conform does the same from a shell; doc/conformance.md is about
// it and about profiles.
//
// A runtime is judged as a command that is started, killed and started again.
// [RunRuntime] and [TestRuntime] play the tool servers, the model and the user; the
// runtime needs a small HTTP interface for that, see [Control] and doc/control.md.
//
// A [Case] has an id, the sides it is for, a [Level], and what is done and
// expected. Its outcome is a [Status]: passed, failed with what was sent, what came
// and what should have come, not applicable because the target has no operation or
// setting that it needs, or an error of the run itself. What is not applicable has
// not passed. Failures that are known can be listed in a [Baseline]; one of them
// that passes is reported as well.
//
// Messages are written and read with encoding/json alone, so that a mistake of
// this module's own decoders is not made twice. Cases have thread ids of their own
// and run side by side, except those that need the whole target; every case ends
// within its time limit.
package conform
