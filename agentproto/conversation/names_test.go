package conversation

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func toolsNamed(own ...string) []Tool {
	tools := make([]Tool, len(own))
	for i, name := range own {
		tools[i].Name = name
	}
	return tools
}

// TestNames checks that a model is shown names that its API accepts, a different one for each
// tool.
func TestNames(t *testing.T) {
	long := strings.Repeat("x", 64)
	for _, tt := range []struct{ own, want []string }{
		{[]string{"read", "read-2", "B_9"}, []string{"read", "read-2", "B_9"}},
		{[]string{"fs/read.file"}, []string{"fs_read_file"}},
		{[]string{"a.b", "a/b", "a:b"}, []string{"a_b", "a_b_2", "a_b_3"}},
		{[]string{"a.b", "a_b"}, []string{"a_b_2", "a_b"}},
		{[]string{"a.b", "a/b", "a_b", "a_b_3"}, []string{"a_b_2", "a_b_4", "a_b", "a_b_3"}},
		{[]string{"読む", "書く", "é"}, []string{"__", "___2", "_"}},
		{[]string{long}, []string{long}},
		{[]string{long + "x", long + "y"}, []string{long, long[:62] + "_2"}},
		{[]string{long, long + "y"}, []string{long, long[:62] + "_2"}},
		{[]string{strings.Repeat("é", 128)}, []string{strings.Repeat("_", 64)}},
		{[]string{EventTool, CancelTool, "incoming.event"}, []string{EventTool + "_2", CancelTool + "_2", EventTool + "_3"}},
		{[]string{""}, []string{"_"}},
	} {
		if got := nameTools(toolsNamed(tt.own...), nil).shown; !slices.Equal(got, tt.want) {
			t.Errorf("%q are shown as %q, want %q", tt.own, got, tt.want)
		}
	}
}

var accepted = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// checkNames asserts what is true of every list of tools. Each tool is shown by a unique name
// that the APIs accept, always the same one, and a call by that name is a call of the tool.
func checkNames(t *testing.T, tools []Tool, history []Message) *names {
	t.Helper()
	n := nameTools(tools, history)
	if again := nameTools(slices.Clone(tools), history); !slices.Equal(n.shown, again.shown) {
		t.Fatalf("named %q, and then %q", n.shown, again.shown)
	}
	seen := map[string]bool{EventTool: true, CancelTool: true}
	var made Reply
	for _, tool := range n.show(tools) {
		if seen[tool.Name] || !accepted.MatchString(tool.Name) {
			t.Fatalf("%q is shown twice, or is no name: %q", tool.Name, n.shown)
		}
		seen[tool.Name] = true
		made.Calls = append(made.Calls, Call{Name: tool.Name})
	}
	reply := n.resolve(&made)
	for i, c := range reply.Calls {
		if c.Name != tools[i].Name || c.shown() != n.shown[i] {
			t.Fatalf("a call of %q is one of %q by %q, want %q", n.shown[i], c.Name, c.shown(), tools[i].Name)
		}
		if back := asShown(Message{Calls: []Call{c}}).Calls[0]; back.Name != n.shown[i] || back.Alias != "" {
			t.Fatalf("the model that called %q is told that it called %+v", n.shown[i], back)
		}
		if made.Calls[i].Name != n.shown[i] {
			t.Fatal("the reply of the model was changed")
		}
	}
	return n
}

// TestNamesAreInverted tries many lists of names that are easily confused, each with a history
// of calls from another list.
func TestNamesAreInverted(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	parts := []string{"a", "b", "_", "-", ".", "/", "é", "_2", "_3", "2", strings.Repeat("x", 61), "cancel", "_", "subscription"}
	for range 2000 {
		list := func() []Tool {
			used := map[string]bool{}
			var own []string
			for range random.IntN(12) {
				name := ""
				for range 1 + random.IntN(4) {
					name += parts[random.IntN(len(parts))]
				}
				if !used[name] {
					used[name] = true
					own = append(own, name)
				}
			}
			return toolsNamed(own...)
		}
		tools, history := list(), []Message(nil)
		for range 3 {
			n := checkNames(t, tools, history)
			m := Message{Kind: Assistant}
			for _, shown := range n.shown {
				m.Calls = append(m.Calls, Call{Name: shown})
			}
			m.Calls = n.resolve(&Reply{Calls: m.Calls}).Calls
			history = append(history, m)
			tools = append(list(), tools[:len(tools)/2]...)
			slices.SortFunc(tools, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
			tools = slices.CompactFunc(tools, func(a, b Tool) bool { return a.Name == b.Name })
			random.Shuffle(len(tools), func(i, j int) { tools[i], tools[j] = tools[j], tools[i] })
		}
	}
}

// FuzzNames takes the lines of a text as names.
func FuzzNames(f *testing.F) {
	f.Add("fs/read.file\nfs_read_file\nfs:read:file")
	f.Add("a.b\na_b_2\na/b\na_b\n" + strings.Repeat("a.", 40))
	f.Fuzz(func(t *testing.T, text string) {
		own := strings.Split(text, "\n")
		slices.Sort(own)
		checkNames(t, toolsNamed(slices.Compact(own)...), nil)
	})
}

// TestNamesStay checks that a tool keeps the name that the model used in the history when the
// list of tools changes. A tool that is no longer offered keeps no name.
func TestNamesStay(t *testing.T) {
	history := []Message{{Kind: Assistant, Calls: []Call{
		{Name: "a.b", Alias: "a_b"}, {Name: "gone.tool", Alias: "gone_tool"}, {Name: "x", Alias: "not a name"},
	}}}
	for _, tt := range []struct{ own, want []string }{
		{[]string{"a.b"}, []string{"a_b"}},
		{[]string{"a/b", "a.b"}, []string{"a_b_2", "a_b"}},
		{[]string{"a_b", "a.b"}, []string{"a_b_2", "a_b"}},
		{[]string{"a_b", "gone_tool"}, []string{"a_b", "gone_tool"}},
		{[]string{"x"}, []string{"x"}},
	} {
		if got := checkNames(t, toolsNamed(tt.own...), history).shown; !slices.Equal(got, tt.want) {
			t.Errorf("%q are shown as %q, want %q", tt.own, got, tt.want)
		}
	}
}

// TestNamesOfManyTools checks that the time to name many tools with colliding names does not
// explode.
func TestNamesOfManyTools(t *testing.T) {
	var own []string
	for i := range 20_000 {
		own = append(own, strings.Repeat("é", 50+i%14)+strings.Repeat("ä", i/14%60)+fmt.Sprintf("%c", 0x4e00+i))
	}
	begun := time.Now()
	checkNames(t, toolsNamed(own...), nil)
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}

// TestMadeUpNames checks that an invented name, which the API would refuse in the history, is
// shown to the model in a valid form. The stored reply is not changed.
func TestMadeUpNames(t *testing.T) {
	m := Message{Kind: Assistant, Calls: []Call{{ID: "a", Name: "functions.read"}, {ID: "b"}, {ID: "c", Name: "ok"}}}
	got := asShown(m)
	if got.Calls[0].Name != "functions_read" || got.Calls[1].Name != "_" || got.Calls[2].Name != "ok" {
		t.Errorf("shown %+v", got.Calls)
	}
	if m.Calls[0].Name != "functions.read" {
		t.Error("the history was changed")
	}
}

// TestReservedNames checks that a tool with a reserved name can be called and is not mistaken
// for the conversation's own tool.
func TestReservedNames(t *testing.T) {
	n := nameTools(toolsNamed(CancelTool), nil)
	reply := n.resolve(&Reply{Calls: []Call{{ID: "a", Name: CancelTool + "_2"}, {ID: "b", Name: CancelTool}}})
	var calls []string
	m := machine{Limits{}.withDefaults()}
	s := State{Session: &Session{ID: "t"}, Asking: true, Round: 1, Used: map[string]bool{}, Undone: map[uint64]Action{1: {Kind: Ask, Round: 1}}}
	var do doing
	m.answer(&s, Action{Number: 1}, Outcome{Reply: reply}, &do)
	for _, a := range do.Calls() {
		if a.Kind == MakeCall {
			calls = append(calls, a.Call.ID+"="+a.Call.Name)
		}
	}
	if len(calls) != 1 || calls[0] != "a="+CancelTool {
		t.Errorf("made %q, want that of a", calls)
	}
}

// TestNamesInEvents checks that a subscription event names the tool as the model knows it.
func TestNamesInEvents(t *testing.T) {
	s := State{Session: &Session{ID: "t"}, Used: map[string]bool{}, Undone: map[uint64]Action{}}
	s.Subscriptions = []Subscription{{Call: Call{ID: "a", Name: "fs/watch", Alias: "fs_watch"}}}
	var do doing
	machine{Limits{}.withDefaults()}.step(&s, input{Kind: happened, Event: &Event{Call: Call{ID: "a"}, Text: "x", Inline: true}}, &do)
	written := messages(&do)
	if len(written) == 0 || !strings.Contains(written[0].Calls[0].Arguments, `"tool":"fs_watch"`) {
		t.Errorf("written %+v", written)
	}
}
