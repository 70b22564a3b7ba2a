package host

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/term"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/form"
	"github.com/millrace/millrace/internal/plain"
	"github.com/millrace/millrace/internal/weburl"
)

// A Terminal is a [Surface] of text. It prints the URL that the user has to visit, and asks choices by number, one at a time; an
// empty line selects the default. It asks a form field by field. If its input is not a terminal, it takes every default at once.
type Terminal struct {
	in       io.Reader
	out      io.Writer
	answerer Answerer

	mu          sync.Mutex // guards the rest, and writing
	interactive bool
	reading     bool
	prompts     []prompt                    // the first one is being asked
	signIns     map[agentproto.CallKey]bool // calls whose URL was printed
}

type prompt struct {
	key    agentproto.CallKey
	choice *agentproto.UserChoice
	form   *form.Filling // nil to choose
}

// A formAnswerer is an [Answerer] that takes forms, as [Runtime.AnswerForm] does.
type formAnswerer interface {
	AnswerForm(ctx context.Context, key agentproto.CallKey, number int, values map[string]jsontext.Value) error
}

// NewTerminal returns a surface that reads from in and writes to out.
func NewTerminal(in io.Reader, out io.Writer) *Terminal {
	file, ok := in.(*os.File)
	return &Terminal{
		in: in, out: out,
		interactive: ok && term.IsTerminal(int(file.Fd())),
		signIns:     map[agentproto.CallKey]bool{},
	}
}

// Bind implements [Binder].
func (t *Terminal) Bind(a Answerer) { t.answerer = a }

// OAuth prints which tool asks, and the host and the URL that the user has to visit. A host that is not ASCII is printed in the
// form in which it is looked up.
func (t *Terminal) OAuth(_ context.Context, key agentproto.CallKey, o *agentproto.OAuth) {
	shown, host, ok := weburl.Show(o.AuthURL)
	if !ok {
		host = "an unknown host"
	}
	who := "A tool"
	if known := t.asker(key); known != "" {
		who = known
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.signIns[key] = true
	t.printf("%s asks you to sign in at %s:\n  %s\n", who, host, shown)
}

// Choice asks the user, or takes the default if the input is not a terminal.
func (t *Terminal) Choice(ctx context.Context, key agentproto.CallKey, c *agentproto.UserChoice) {
	t.mu.Lock()
	if !t.interactive {
		t.printf("%s%s\n  nobody can be asked here, so: %s\n", t.asks(key), printable(c.Prompt), printable(c.Choices[c.Default]))
		t.mu.Unlock()
		t.answer(ctx, prompt{key: key, choice: c}, c.Default)
		return
	}
	defer t.mu.Unlock()
	p := prompt{key: key, choice: c}
	if _, ok := t.answerer.(formAnswerer); ok && c.Form != nil {
		if f, err := form.Parse(c.Form); err == nil {
			p.form = form.NewFilling(f)
		}
	}
	t.prompts = append(t.prompts, p)
	if len(t.prompts) == 1 {
		t.ask()
	}
	if !t.reading {
		t.reading = true
		go t.read(ctx)
	}
}

// Withdraw takes back a prompt, or says that an authorization is no longer needed.
func (t *Terminal) Withdraw(key agentproto.CallKey, detour string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, p := range t.prompts {
		if p.key == key && p.choice.ResponseURL == detour {
			t.printf("(the question \"%s\" is withdrawn)\n", printable(p.choice.Prompt))
			t.drop(i)
			return
		}
	}
}

// Progress says when a requested authorization is over.
func (t *Terminal) Progress(key agentproto.CallKey, state agentproto.State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.signIns[key] && state != agentproto.OAuthPending {
		delete(t.signIns, key)
		t.printf("(the sign-in is not needed any more)\n")
	}
}

// View prints nothing: a terminal has no views.
func (t *Terminal) View(agentproto.CallKey, *agentproto.ViewUpdate) {}

// read uses each line of input as an answer to the first prompt. It runs until the input ends, because a read of a terminal
// cannot be interrupted.
func (t *Terminal) read(ctx context.Context) {
	lines := bufio.NewScanner(t.in)
	for lines.Scan() && ctx.Err() == nil {
		t.mu.Lock()
		if len(t.prompts) == 0 {
			t.mu.Unlock()
			continue
		}
		p := t.prompts[0]
		if p.form != nil {
			done, err := p.form.Enter(lines.Text())
			if err != nil {
				t.printf("%s\n", printable(err.Error()))
			}
			if done {
				t.drop(0)
			} else {
				t.printf("%s", p.form.Ask())
			}
			t.mu.Unlock()
			if done {
				t.fill(ctx, p)
			}
			continue
		}
		selected, ok := selection(lines.Text(), p.choice)
		if !ok {
			t.printf("Please enter a number from 1 to %d: ", len(p.choice.Choices))
			t.mu.Unlock()
			continue
		}
		t.drop(0)
		t.mu.Unlock()
		t.answer(ctx, p, selected)
	}
	// No more input: all later prompts get their defaults.
	t.mu.Lock()
	open := t.prompts
	t.prompts, t.interactive = nil, false
	t.mu.Unlock()
	for _, p := range open {
		t.answer(ctx, p, Dismiss)
	}
}

// selection parses one line. The user counts from one.
func selection(line string, c *agentproto.UserChoice) (int, bool) {
	line = strings.TrimSpace(line)
	if line == "" {
		return c.Default, true
	}
	n, err := strconv.Atoi(line)
	return n - 1, err == nil && n >= 1 && n <= len(c.Choices)
}

// drop removes a prompt and, if it was the first, asks the next one. The caller holds mu.
func (t *Terminal) drop(i int) {
	t.prompts = append(t.prompts[:i:i], t.prompts[i+1:]...)
	if i == 0 && len(t.prompts) > 0 {
		t.ask()
	}
}

// ask prints the first prompt. The caller holds mu.
func (t *Terminal) ask() {
	if f := t.prompts[0].form; f != nil {
		t.printf("%s%s", t.asks(t.prompts[0].key), f.Ask())
		return
	}
	c := t.prompts[0].choice
	t.printf("%s%s\n", t.asks(t.prompts[0].key), printable(c.Prompt))
	for i, label := range c.Choices {
		t.printf("  %d) %s\n", i+1, printable(label))
	}
	t.printf("Your choice [%d]: ", c.Default+1)
}

func (t *Terminal) answer(ctx context.Context, p prompt, selected int) {
	if t.answerer == nil {
		return
	}
	t.refused(t.answerer.Answer(ctx, p.key, p.choice.ResponseURL, selected))
}

// fill answers with the values of a form.
func (t *Terminal) fill(ctx context.Context, p prompt) {
	if a, ok := t.answerer.(formAnswerer); ok {
		t.refused(a.AnswerForm(ctx, p.key, 0, p.form.Values()))
	}
}

// refused prints why an answer was not accepted.
func (t *Terminal) refused(err error) {
	if err == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.printf("(the answer was not taken: %s)\n", printable(err.Error()))
}

// asks returns the line before a question that names the asker, or "" if unknown.
func (t *Terminal) asks(key agentproto.CallKey) string {
	if who := t.asker(key); who != "" {
		return who + " asks:\n"
	}
	return ""
}

// asker names the tool and the tool server that ask, as far as the answerer knows them.
func (t *Terminal) asker(key agentproto.CallKey) string {
	servers, ok := t.answerer.(interface {
		ToolsetOf(agentproto.CallKey) string
	})
	if !ok {
		return ""
	}
	tool := "A tool"
	if tools, ok := t.answerer.(interface {
		ToolOf(agentproto.CallKey) string
	}); ok && tools.ToolOf(key) != "" {
		tool = "The tool " + printable(tools.ToolOf(key))
	}
	return tool + " of " + printable(cmp.Or(servers.ToolsetOf(key), "an unknown server"))
}

func (t *Terminal) printf(format string, args ...any) { fmt.Fprintf(t.out, format, args...) }

// maxPrinted is how many bytes of a text are printed.
const maxPrinted = 4096

// printable returns a tool server's text as one line that is safe to print.
func printable(s string) string {
	if len(s) > maxPrinted {
		return plain.Line(strings.ToValidUTF8(s[:maxPrinted], "")) + "…"
	}
	return plain.Line(s)
}
