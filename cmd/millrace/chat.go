package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/term"

	"github.com/millrace/millrace/agentproto/follow"
	"github.com/millrace/millrace/internal/edge"
)

const chatUsage = `usage: millrace chat [SESSION] [flags]

Talks with the model of a running 'millrace serve', in a session of that name: a new one, or one
to go on with. It prints what the model writes while it does, the calls of tools and their
results, and what the user is asked.

A line is what the user says. It interrupts what is going on; lines that do not come from a
terminal wait for the end of the turn instead, and the program ends behind the last turn. While a
tool asks, a line is the answer: the number of a choice, or empty for the default. A form is asked
field by field; /decline declines it. /stop ends what is going on, /quit ends the program and leaves
the session open.

If the connection breaks, or the runtime is killed and started again, it goes on where it was.

`

func chat(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("chat", flag.ContinueOnError)
	fs.Usage = func() { fmt.Fprint(fs.Output(), chatUsage); fs.PrintDefaults() }
	api := fs.String("api", "http://127.0.0.1:7341", "`URL` of the API of the runtime")
	state := fs.String("state", "state", "`folder` of that runtime, which has the token of its API")
	tokenFile := fs.String("token-file", "", "`file` with the token, if it is not in that folder")
	user := fs.String("user", "", "`name` by which tools know the user")
	model := fs.String("model", "", "`name` of the model of a new session, where the runtime has several; the default unless given")
	instructions := fs.String("instructions", "", "`text` for the model, in front of a new session")
	var session string
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		session, args = args[0], args[1:]
	}
	if err := parse(fs, args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return misused(fs, "what is %s?", strings.Join(fs.Args(), " "))
	}
	token, err := findToken(*tokenFile, *state)
	if err != nil {
		return err
	}
	if session == "" {
		session = "chat-" + strings.ToLower(rand.Text()[:8])
	}
	c := &chatting{
		api: apiClient{*api, token}, thread: session, out: stdout,
		typed: term.IsTerminal(int(os.Stdin.Fd())), last: -1,
	}
	open := sessionBody{ID: session, UserID: *user, Instructions: *instructions, Model: *model}
	if err := c.ask(ctx, http.MethodPost, "/sessions", open, http.StatusCreated); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "millrace chat: session %q\n", session)
	if err := c.catchUp(ctx); err != nil {
		return err
	}
	return c.run(ctx, os.Stdin)
}

// A chatting is a conversation in a terminal. Its fields belong to the goroutine of run.
type chatting struct {
	api    apiClient
	thread string
	out    io.Writer
	typed  bool // lines come from a terminal: they are read at any time and not printed again

	last    int    // number of the last message
	caught  int    // number of the last message that existed at the start
	said    string // what the user said last, until its message arrives
	sent    bool   // said is on its way, or its turn continues
	asking  bool
	prompts []follow.Prompt
	form    formAsked
	shown   map[string]bool   // prompts that were printed, by call and time
	names   map[string]string // of tools, by call
	states  map[string]string // of pending calls
	written strings.Builder   // what the model has written and no message has replaced
	calling map[int]bool      // calls that the model is writing
}

// A chatEvent is an event, or the reason why there are no more.
type chatEvent struct {
	e   follow.Event
	err error
	end bool
}

// catchUp finds out how many messages already exist. No line is read before these have been shown.
func (c *chatting) catchUp(ctx context.Context) error {
	_, err := c.until(ctx, func() (bool, error) {
		status, text, err := c.api.do(ctx, http.MethodGet, "/threads/"+edge.Segment(c.thread)+"/messages", nil)
		if err != nil || status == http.StatusServiceUnavailable {
			return false, err
		}
		var all []follow.Message
		if status != http.StatusOK {
			return true, errors.New(problemIn(status, text))
		}
		if err := json.Unmarshal(text, &all); err != nil || len(all) == 0 {
			return true, err
		}
		c.caught = all[len(all)-1].N
		return true, nil
	})
	return err
}

// run holds the conversation until the lines or the thread end.
func (c *chatting) run(ctx context.Context, in io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.shown, c.names, c.states, c.calling = map[string]bool{}, map[string]string{}, map[string]string{}, map[int]bool{}
	events := make(chan chatEvent)
	give := func(e chatEvent) {
		select {
		case events <- e:
		case <-ctx.Done():
		}
	}
	client := follow.Client{URL: c.api.base, Token: c.api.token, Lost: func(err error) {
		fmt.Fprintf(stderr, "millrace chat: the connection is lost, trying again: %v\n", err)
	}}
	go func() {
		for e, err := range client.Follow(ctx, c.thread, 0) {
			give(chatEvent{e: e, err: err})
		}
		give(chatEvent{end: true})
	}()
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(in); scan.Scan(); {
			select {
			case lines <- scan.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	over := false // there are no more lines
	for {
		take := lines
		if over || c.last < c.caught || !c.typed && !c.listens() {
			take = nil
		}
		if over && c.last >= c.caught && !c.sent && len(c.choices()) == 0 {
			return nil
		}
		select {
		case e := <-events:
			switch {
			case e.end:
				return nil
			case e.err != nil && ctx.Err() != nil:
				return nil
			case e.err != nil:
				return e.err
			}
			c.show(e.e)
		case line, ok := <-take:
			if !ok {
				over = true
				if err := c.dismiss(ctx); err != nil {
					return err
				}
				break
			}
			if line == "/quit" {
				return nil
			}
			if err := c.line(ctx, line); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// listens reports whether to read a line that is not typed: something waits for one.
func (c *chatting) listens() bool { return !c.sent || len(c.choices()) > 0 }

// choices returns the prompts that a line can answer.
func (c *chatting) choices() (all []follow.Prompt) {
	for _, p := range c.prompts {
		if len(p.Choices) > 0 {
			all = append(all, p)
		}
	}
	return all
}

// line handles a line that the user has entered.
func (c *chatting) line(ctx context.Context, line string) error {
	path := "/threads/" + edge.Segment(c.thread)
	if strings.TrimSpace(line) == "/stop" {
		return c.ask(ctx, http.MethodPost, path+"/interrupt", nil, http.StatusNoContent)
	}
	if open := c.choices(); len(open) > 0 {
		if filled, err := c.fill(ctx, open[0], line); filled {
			return err
		}
		return c.answer(ctx, open[0], line)
	}
	if strings.TrimSpace(line) == "" {
		return nil
	}
	c.said, c.sent = line, true
	body := struct {
		Text string `json:"text"`
		Key  string `json:"key"` // so that it can be repeated if the outcome is unknown
	}{line, rand.Text()}
	return c.ask(ctx, http.MethodPost, path+"/messages", body, http.StatusAccepted)
}

// answer answers a choice.
func (c *chatting) answer(ctx context.Context, p follow.Prompt, line string) error {
	selected := p.Default
	if text := strings.TrimSpace(line); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > len(p.Choices) {
			fmt.Fprintf(c.out, "Please enter a number from 1 to %d.\n", len(p.Choices))
			return nil
		}
		selected = n - 1
	}
	c.drop(p)
	defer c.askForm()
	body := struct {
		ID       string `json:"id"`
		Selected *int   `json:"selected"`
	}{p.ID, &selected}
	// 404: it was answered or withdrawn in the meantime.
	return c.ask(ctx, http.MethodPost, "/threads/"+edge.Segment(c.thread)+"/answers", body, http.StatusNoContent, http.StatusNotFound)
}

// dismiss answers open questions with their defaults, at the end of the input.
func (c *chatting) dismiss(ctx context.Context) error {
	for _, p := range c.choices() {
		if err := c.answer(ctx, p, ""); err != nil {
			return err
		}
	}
	return nil
}

// drop forgets an answered prompt. The next event lists the prompts that are open.
func (c *chatting) drop(p follow.Prompt) {
	for i := range c.prompts {
		if c.prompts[i].ID == p.ID {
			c.prompts = append(c.prompts[:i:i], c.prompts[i+1:]...)
			return
		}
	}
}

// The interval between attempts while the runtime does not answer, and the time after which to give up.
const (
	chatPause   = 500 * time.Millisecond
	chatTimeout = 5 * time.Minute
)

// ask makes an idempotent request until it is answered with one of the wanted statuses.
func (c *chatting) ask(ctx context.Context, method, path string, body any, want ...int) error {
	_, err := c.until(ctx, func() (bool, error) {
		status, text, err := c.api.do(ctx, method, path, body)
		switch {
		case err != nil || status == http.StatusServiceUnavailable:
			return false, err
		}
		for _, s := range want {
			if status == s {
				return true, nil
			}
		}
		return true, errors.New(problemIn(status, text))
	})
	return err
}

// until calls do with pauses until it reports done.
func (c *chatting) until(ctx context.Context, do func() (done bool, err error)) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, chatTimeout)
	defer cancel()
	for told := false; ; {
		done, err := do()
		if done {
			return true, err
		}
		if !told {
			told = true
			fmt.Fprintf(stderr, "millrace chat: the runtime does not answer, trying again: %v\n", err)
		}
		select {
		case <-time.After(chatPause):
		case <-ctx.Done():
			return false, errors.Join(err, context.Cause(ctx))
		}
	}
}
