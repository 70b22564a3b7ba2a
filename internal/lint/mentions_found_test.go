package lint

import (
	"strings"
	"testing"
)

// TestMentionsFound checks that [TestMentions] reports what does not exist, and nothing else: a
// pattern that matches nothing would report nothing in the documents either.
func TestMentionsFound(t *testing.T) {
	d := newChecker(t)
	const file = "doc/testing.md"
	inComment := func(text string) []string {
		return d.checkComment(passage{"dataflow/flow.go", 1, comment, text}, d.packages["dataflow"], map[string]string{"engine": "internal/engine", "context": ""})
	}
	inSpan := func(text string) []string { return d.checkSpan(passage{file, 1, span, text}) }
	inHydro := func(text string) []string { return d.checkSpan(passage{"doc/hydro.md", 1, span, text}) }
	inProse := func(text string) []string { return d.checkProse(passage{file, 1, prose, text}) }
	inLine := func(text string) []string { return d.checkLine("", text) }
	inLink := func(text string) []string { return d.checkLink(passage{file, 1, link, text}) }
	for _, test := range []struct {
		look func(string) []string
		text string
		want string // part of what is reported; empty if nothing is
	}{
		{inSpan, "dataflow.Start", ""},
		{inSpan, "dataflow.Strat", "dataflow.Strat"},
		{inSpan, "host.Options.Model", ""},
		{inSpan, "host.Options.Mode", "host.Options.Mode"},
		{inSpan, "runtime.Goexit", ""},
		{inSpan, "Options.Model", ""},
		{inSpan, "Flow.Reason", "Flow.Reason"},
		{inSpan, "FoldEarlyStop", ""},
		{inSpan, "FoldEarlyStopped(x)", "FoldEarlyStopped"},
		{inSpan, "maxSpins", ""},
		{inSpan, "maxTwists", "maxTwists"},
		{inSpan, "callback_ms", ""},
		{inSpan, "callback_years", "callback_years"},
		{inSpan, "--migration-key", ""},
		{inSpan, "--migration-keys FILE", "--migration-keys"},
		{inSpan, "-sim.replay", ""},
		{inSpan, "-sim.repeat", "-sim.repeat"},
		{inSpan, "token.go", ""},
		{inSpan, "nobody.go", "nobody.go"},
		{inSpan, "internal/lint", ""},
		{inSpan, "internal/lent", "internal/lent"},
		{inSpan, "agentproto/testdata/node.txt", ""},
		{inSpan, "./dataflow/sim", ""},
		{inSpan, "./dataflow/sam", "./dataflow/sam"},
		{inSpan, "TestThreats", ""},
		{inSpan, "TestThrats", "TestThrats"},
		{inSpan, "/cancel_tool_call", ""},
		{inSpan, "POST /cancel_toolcall", "cancel_toolcall"},
		{inSpan, "millrace log show", ""},
		{inSpan, "millrace log look", "look"},
		{inHydro, "kst.First", ""},
		{inHydro, "kst.Fist", "kst.Fist"},
		{inHydro, "ThresholdUniform", ""},
		{inHydro, "ThresholdUneven", "ThresholdUneven"},
		{inHydro, "OpenSession", "OpenSession"}, // not an operator
		{inSpan, "webhook-id", ""},
		{inSpan, "webhook-ad", "webhook-ad"},
		{inHydro, "use-up", ""}, // a word of another system
		{inSpan, "Retry-After: 2", ""},
		{inSpan, "Retry-Soon: 2", "Retry-Soon"},
		{inSpan, `{"id","call_id","operation","arguments"}`, ""},
		{inSpan, `{"id","call_no","operation","arguments"}`, "call_no"},
		{inSpan, `{"type":"anything"}`, ""}, // a value may be anything
		{inSpan, `"max_users": 3`, ""},
		{inSpan, `"max_losers": 3`, "max_losers"},
		{inSpan, "?wait=30s", ""},
		{inSpan, "/calls/t/c?wayt=30s", "wayt"},
		{inSpan, "POST {public URL}/rap/v1/migration", ""},
		{inSpan, "POST {public URL}/rap/v1/immigration", "immigration"},
		{inSpan, "GET /threads/{t}/prompts", ""},
		{inSpan, "GET /threads/{t}/promptz", "promptz"},
		{inSpan, "durable.Options{Log: disklog.Dir(d), Upgrade: nil}", ""},
		{inSpan, "durable.Options{Log: disklog.Dir(d), Upgrades: nil}", "durable.Options.Upgrades"},
		{inComment, "	host.Start(ctx, host.Options{Toolset: x})", "host.Options.Toolset"},
		{inSpan, "owner.follow negate 5", ""},
		{inSpan, "owner.fallow negate 5", "owner.fallow"},
		{inSpan, "KeyedNode.compile", ""},
		{inSpan, "KeyedNode.compost", "KeyedNode.compost"},
		{inProse, "begun with --migration-key, see doc/threats.md and TestThreats", ""},
		{inProse, "begun with --migration-kea", "--migration-kea"},
		{inProse, "see doc/treats.md", "doc/treats.md"},
		{inProse, "which TestThrats shows", "TestThrats"},
		{inComment, " See [Flow.Reasons] and [App].", ""},
		{inComment, " See [Flow.Raisins].", "Flow.Raisins"},
		{inComment, " It ends with a [dataflow.PanicError].", "dataflow.PanicError"},
		{inComment, " [engine.Graph] and [context.Context]", ""},
		{inComment, " [engine.Graf]", "engine.Graf"},
		{inComment, " as keyedstream.First does", ""},
		{inComment, " as keyedstream.Furst does", "keyedstream.Furst"},
		{inComment, " the StepError.Location says", ""},
		{inComment, " the StepError.Locality says", "StepError.Locality"},
		{inComment, " see doc/threats.md", ""},
		{inComment, " see doc/treats.md", "doc/treats.md"},
		{inComment, " with --migration-sea", "--migration-sea"},
		{inComment, " [Options].Queue", ""},
		{inComment, " [Options].Cue", "Options.Cue"},
		{inComment, " (cases R02 to R04, decision 0007)", ""},
		{inComment, " (case R99)", "R99"},
		{inComment, " (decision 0999)", "0999"},
		{inSpan, "OPENAI_API_KEY", ""},
		{inSpan, "OPENAI_API_KAY", "OPENAI_API_KAY"},
		{d.checkMembers, `"callback_ms": 5,`, ""},
		{d.checkMembers, `"callback_m": 5,`, "callback_m"},
		{inLine, "millrace serve --state DIR --tool URL", ""},
		{inLine, "millrace serve --stat DIR", "--stat"},
		{inLine, "millrace surf", "surf"},
		{inLine, "echo '{}' | go run ./cmd/millrace run --tool http://127.0.0.1:8801 -", ""},
		{inLine, "echo '{}' | go run ./cmd/millrace run --tol x", "--tol"},
		{inLine, "go run ./cmd/millace demo", "cmd/millace"},
		{inLine, "cd bench && go run ./cmd/report -job Chain", ""},
		{inLine, "cd bench && go run ./cmd/report -jobs Chain", "-jobs"},
		{inLine, "go test ./dataflow/sim -run '^TestName$' -sim.replay 0.2.1", ""},
		{inLine, "go test ./dataflow/sim -sim.reply 0", "-sim.reply"},
		{inLine, "go test ./internal/lint -run TestMentions/x -count 2", ""},
		{inLine, "go test ./internal/lint -run '^TestMention$'", "finds nothing"},
		{inLine, "go test -run '^$' -fuzz '^FuzzPayload$' -fuzztime 1m ./agentproto/internal/migrate", ""},
		{inLine, "go test -run '^$' -fuzz '^FuzzPlayload$' ./agentproto/internal/migrate", "finds nothing"},
		{inLine, "go test ./agentprot", "./agentprot"},
		{inLine, "go doc ./keyedstream", ""},
		{inLine, "go doc ./keystream", "./keystream"},
		{inLink, "threats.md#here", ""},
		{inLink, "../agentproto/conform/control.go", ""},
		{inLink, "threads.md", "doc/threads.md"},
		{d.checkUsage, `"give each a key with --migration-key"`, ""},
		{d.checkUsage, `"give each a key with --migration-kea"`, "--migration-kea"},
	} {
		found := strings.Join(test.look(test.text), "; ")
		if (found == "") != (test.want == "") || !strings.Contains(found, test.want) {
			t.Errorf("%q: found %q, want %q", test.text, found, test.want)
		}
	}
}

// TestPassages checks how a document is divided into passages.
func TestPassages(t *testing.T) {
	text := "Say `one\ntwo`, and [see](there.md).\n\n    go test \\\n      ./x\n\n```go\nx := 1\n```\n```json\n{}\n```\n| `a` | `b` |\n"
	want := []passage{
		{"f", 1, span, "one two"}, {"f", 1, prose, "Say"}, {"f", 2, link, "there.md"}, {"f", 2, prose, ", and [see]."}, {"f", 5, command, "go test ./x"}, {"f", 8, code, "x := 1"}, {"f", 11, object, "{}"},
		{"f", 13, span, "a"}, {"f", 13, span, "b"},
	}
	got := passagesOf("f", text)
	if len(got) != len(want) {
		t.Fatalf("%+v, want %+v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
}
