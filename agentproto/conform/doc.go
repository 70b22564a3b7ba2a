// Package conform checks whether a tool server or a runtime conforms to the agent tool protocol: it
// implements the conformance cases of doc/protocol.md §14.
//
// A tool server is tested from outside. The package plays the runtime, with a callback endpoint on
// loopback whose answers follow a script, and the user's browser:
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
// In the tests of a server, [TestTool] runs each case as a subtest. The command millrace conform
// does the same from a shell; doc/conformance.md describes it and the profiles.
//
// A runtime is tested as a command that is started, killed and started again. [RunRuntime] and
// [TestRuntime] play the tool servers, the model and the user; for that, the runtime needs a small
// HTTP interface, see [Control] and doc/control.md.
//
// A [Case] has an id, the sides it is for, a [Level], an action and an expected outcome. Its
// [Status] is one of: passed; failed, with what was sent, received and expected; not applicable,
// because the target lacks an operation or setting that the case needs; or an error of the run
// itself. A case that is not applicable has not passed. Known failures can be listed in a
// [Baseline]; if one of them passes, that is reported too.
//
// Messages are encoded and decoded with encoding/json alone, so that a mistake in this module's own
// decoders is not repeated here. Cases have their own thread ids and run in parallel, except those
// that need the whole target. Every case ends within its time limit.
package conform
