// Command agent has a conversation of a user, a model and tools: those of a shop, over HTTP, and those of a post, which
// is an MCP server. What the model says is written down; the rest is as with a model that thinks. It ends by itself.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/agentproto/mcptools"
)

// script is what the model answers, each time that it is asked.
var script = conversation.Script{
	{Calls: []conversation.Call{{Name: "stock", Arguments: `{"name":"tea"}`}, {Name: "post_postage", Arguments: `{"grams":300}`}}},
	{Text: "There is tea. I let you choose.", Calls: []conversation.Call{{Name: "order", Arguments: `{"name":"tea"}`}}},
	{Calls: []conversation.Call{{Name: "follow", Arguments: `{"name":"tea"}`}}},
	{Text: "It is ordered. I will tell you when it is there."},
	{Text: "Your tea is there."},
}

// A user answers questions of tools where the channel is read, and sees the rest in a terminal.
type user struct {
	*host.Terminal
	asked chan agentproto.CallKey
}

func (u user) Choice(_ context.Context, key agentproto.CallKey, _ *agentproto.UserChoice) {
	u.asked <- key
}

func main() {
	slog.SetLogLoggerLevel(slog.LevelWarn)
	do := post // this program is the MCP server, too
	if len(os.Args) < 2 || os.Args[1] != "post" {
		do = func(ctx context.Context) error { return run(ctx, os.Stdout) }
	}
	if err := do(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// run starts everything, has the conversation, and ends everything.
func run(ctx context.Context, to io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	url := "http://" + l.Addr().String()
	tea := shop{arrived: make(chan struct{})}
	tools := tea.open(url)
	front := &http.Server{Handler: tools, MaxHeaderBytes: 16 << 10, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute}
	go front.Serve(l)
	defer front.Close()
	defer tools.Close(ctx)
	set, err := mcptools.Open(ctx, mcptools.Options{Servers: []mcptools.Server{{Name: "post", Command: []string{os.Args[0], "post"}}}})
	if err != nil {
		return err
	}
	defer set.Close(ctx)
	ada := user{host.NewTerminal(os.Stdin, to), make(chan agentproto.CallKey, 1)}
	rt, err := host.Start(ctx, host.Options{Toolsets: []string{url}, Local: set.Local(), Model: script, Surface: ada})
	if err != nil {
		return err
	}
	defer rt.Stop(ctx)
	set.SetCallbacks(rt.Handler())
	thread, err := rt.OpenSession(ctx, host.SessionRequest{ID: "session-1", UserID: "ada"})
	if err == nil {
		err = thread.Say(ctx, "Buy me some tea.")
	}
	if err != nil {
		return err
	}
	for m, err := range thread.Follow(ctx, 1) { // the first message says that the thread is open
		if err != nil {
			return err
		}
		show(to, &m)
		switch {
		case len(m.Calls) > 0 && m.Calls[0].Name == "order":
			if err := rt.AnswerForm(ctx, <-ada.asked, 0, map[string]jsontext.Value{"order": jsontext.Value(`{"packets":3}`)}); err != nil {
				return err
			}
		case m.Text == script[3].Text:
			close(tea.arrived) // the next day
		case m.Text == script[4].Text:
			return nil
		}
	}
	return nil
}

func show(to io.Writer, m *conversation.Message) {
	text := m.Text
	for _, c := range m.Calls {
		text += fmt.Sprintf(" %s(%s)", c.Name, c.Arguments)
	}
	if m.Result != nil {
		text = m.Result.Text()
	}
	fmt.Fprintf(to, "%s: %s\n", m.Kind, strings.TrimSpace(text))
}
