package host

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/agentproto"
)

// answers records a terminal's answers.
type answers struct{ got []string }

func (a *answers) Answer(_ context.Context, key agentproto.CallKey, url string, selected int) error {
	a.got = append(a.got, fmt.Sprint(key, " ", url, " ", selected))
	return nil
}

func question(id string, def int) (agentproto.CallKey, *agentproto.UserChoice) {
	key := agentproto.CallKey{GroupID: "g", ID: id}
	return key, &agentproto.UserChoice{
		GroupID: "g", ID: id, Prompt: "Question " + id + "?", Choices: []string{"no", "yes", "always"},
		Default: def, ResponseURL: "http://tool.test/" + id,
	}
}

func TestTerminalEscapes(t *testing.T) {
	var out strings.Builder
	term := NewTerminal(strings.NewReader(""), &out)
	key := agentproto.CallKey{GroupID: "g", ID: "1"}
	term.OAuth(t.Context(), key, &agentproto.OAuth{AuthURL: "https://login.test/\x1b[2J\u202e?q=é"})
	term.Progress(key, agentproto.OAuthPending)
	term.Progress(key, agentproto.Pending)
	term.Progress(key, agentproto.Completed)
	want := "A tool asks you to sign in at an unknown host:\n  https://login.test/\\u{1b}[2J\\u{202e}?q=é\n(the sign-in is not needed any more)\n"
	if got := out.String(); got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	out.Reset()
	term.OAuth(t.Context(), key, &agentproto.OAuth{AuthURL: "https://login.test/a"})
	if got := out.String(); !strings.Contains(got, "at login.test:\n  https://login.test/a\n") {
		t.Errorf("printed %q", got)
	}
	if got := printable(strings.Repeat("x", 1<<20)); len(got) > maxPrinted+8 {
		t.Errorf("a text of %d bytes is printed", len(got))
	}
}

func TestTerminalAlone(t *testing.T) {
	var out strings.Builder
	a := &answers{}
	term := NewTerminal(strings.NewReader("2\n"), &out)
	term.Bind(a)
	key, c := question("1", 2)
	term.Choice(t.Context(), key, c)
	if got, want := fmt.Sprint(a.got), "[g/1 http://tool.test/1 2]"; got != want {
		t.Errorf("answers %s, want %s", got, want)
	}
	if want := "Question 1?\n  nobody can be asked here, so: always\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

func TestTerminalAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &lockedBuffer{}
		in, keyboard := io.Pipe()
		a := &answers{}
		term := NewTerminal(in, out)
		term.interactive = true
		term.Bind(a)
		for id, def := range []int{0, 1, 2, 0} {
			key, c := question(fmt.Sprint(id), def)
			term.Choice(t.Context(), key, c)
		}
		key, c := question("1", 1)
		term.Withdraw(key, c.ResponseURL)
		term.Withdraw(key, c.ResponseURL)
		io.WriteString(keyboard, "7\nx\n2\n") // answers the first question
		io.WriteString(keyboard, "\n")        // answers the third: the second is withdrawn
		keyboard.Close()                      // the end of the input dismisses the fourth
		synctest.Wait()
		key, c = question("4", 2)
		term.Choice(t.Context(), key, c)
		want := "[g/0 http://tool.test/0 1 g/2 http://tool.test/2 2 g/3 http://tool.test/3 -1 g/4 http://tool.test/4 2]"
		if got := fmt.Sprint(a.got); got != want {
			t.Errorf("answers %s\nwant %s", got, want)
		}
		wantOut := `Question 0?
  1) no
  2) yes
  3) always
Your choice [1]: (the question "Question 1?" is withdrawn)
Please enter a number from 1 to 3: Please enter a number from 1 to 3: Question 2?
  1) no
  2) yes
  3) always
Your choice [3]: Question 3?
  1) no
  2) yes
  3) always
Your choice [1]: Question 4?
  nobody can be asked here, so: always
`
		if got := out.String(); got != wantOut {
			t.Errorf("printed\n%s\nwant\n%s", got, wantOut)
		}
	})
}

// knowing is an answerer that knows the tool and the server of a question.
type knowing struct {
	answers
	tool string
}

func (k *knowing) ToolOf(agentproto.CallKey) string { return k.tool }

func (*knowing) ToolsetOf(agentproto.CallKey) string { return "http://bank.test\x1b" }

// TestThreat31_TerminalNamesTheServer catches a question that does not name its tool server.
func TestThreat31_TerminalNamesTheServer(t *testing.T) {
	var out strings.Builder
	term := NewTerminal(strings.NewReader(""), &out)
	term.Bind(&knowing{})
	key, c := question("1", 0)
	term.Choice(t.Context(), key, c)
	if want := "A tool of http://bank.test\\u{1b} asks:\nQuestion 1?\n"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
	inWorld(t, func(t *testing.T, w *world) {
		tool, key, url := w.pending()
		rt := w.rt
		w.post(url, choice(`["a"]`, 0, answerURL))
		synctest.Wait()
		if got := rt.ToolsetOf(key); got != tool.base {
			t.Errorf("the toolset is %q", got)
		}
		if got := rt.ToolsetOf(agentproto.CallKey{GroupID: "g", ID: "2"}); got != "" {
			t.Errorf("of a call that there is not: %q", got)
		}
	})
}

// TestThreat17_SignIn checks that a sign-in prompt names the tool, its tool server and the
// target host, in letters that cannot be confused (O02, threat 17).
func TestThreat17_SignIn(t *testing.T) {
	for _, tt := range []struct{ url, want string }{
		{"https://login.test/a", "login.test:\n  https://login.test/a\n"},
		{"https://\u0430pple.com/x", "xn--pple-43d.com:\n  https://xn--pple-43d.com/x\n"},
		{"https://good.example\u3002evil.example/", "good.example.evil.example:\n  https://good.example.evil.example/\n"},
		{"https://good.example@evil.example/", "an unknown host:\n  https://good.example@evil.example/\n"},
		{"https://login.test/\u009b2J\u200b\U000e0041", "login.test:\n  https://login.test/%C2%9B2J%E2%80%8B%F3%A0%81%81\n"},
	} {
		var out strings.Builder
		term := NewTerminal(strings.NewReader(""), &out)
		term.Bind(&knowing{tool: "cal\u202eendar\nYour password:"})
		term.OAuth(t.Context(), agentproto.CallKey{GroupID: "g", ID: "1"}, &agentproto.OAuth{AuthURL: tt.url})
		want := "The tool cal\\u{202e}endar\\u{a}Your password: of http://bank.test\\u{1b} asks you to sign in at " + tt.want
		if got := out.String(); got != want {
			t.Errorf("printed %q, want %q", got, want)
		}
	}
	inWorld(t, func(t *testing.T, w *world) {
		tool, key, url := w.pending()
		for _, bad := range []string{"https://good.example@evil.example/", "https://good.example%40evil.example/", "https://a\u202eb.example/", "https://" + strings.Repeat("a.", 130) + "a/"} {
			if status := w.post(url, fmt.Sprintf(`{"type":"oauth","group_id":"g","id":"1","auth_url":%q}`, bad)); status != 400 {
				t.Errorf("%s was answered %d", bad, status)
			}
		}
		if asked := w.user.saw(); len(asked) != 0 {
			t.Errorf("the user was asked %q", asked)
		}
		if r, err := w.rt.Await(t.Context(), key); err != nil || r.Cause != agentproto.ByMalformed {
			t.Errorf("%+v, %v", r, err)
		}
		next := w.call("h", "1")
		synctest.Wait()
		w.post(tool.callbackOf(next), oauthBody(next))
		synctest.Wait()
		if got := w.rt.ToolOf(next); got != "echo" {
			t.Errorf("the tool that asks is %q", got)
		}
	})
}
