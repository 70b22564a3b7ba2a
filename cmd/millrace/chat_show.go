package main

import (
	"fmt"
	"strings"

	"github.com/millrace/millrace/agentproto/follow"
	"github.com/millrace/millrace/agentproto/form"
	"github.com/millrace/millrace/internal/plain"
)

// What a chat prints. All texts come from others, so none of them may move the cursor.

// show prints an event.
func (c *chatting) show(e follow.Event) {
	switch e.Name {
	case follow.MessageEvent:
		c.showMessage(e.Message)
	case follow.StateEvent:
		c.showState(e.State)
	case follow.PromptsEvent:
		c.showPrompts(e.Prompts)
	case follow.DeltaEvent:
		c.showDelta(e.Delta)
	case follow.ResetEvent:
		c.void("(the model is asked again)")
	case follow.ClosedEvent:
		fmt.Fprintln(c.out, "(the session is closed)")
	}
	if e.Name == follow.StateEvent {
		c.rest(false)
	}
}

// void ends the line of what the model has written, if there is one, and prints why it is replaced.
func (c *chatting) void(why string) {
	if c.written.Len() > 0 {
		fmt.Fprintf(c.out, "\n%s\n", why)
	}
	c.written.Reset()
	clear(c.calling)
}

func (c *chatting) showDelta(d *follow.Delta) {
	if d.Seq == 0 {
		c.void("(the model is asked again)")
	}
	if d.Text != "" {
		c.written.WriteString(d.Text)
		fmt.Fprint(c.out, plain.Text(d.Text))
	}
	if d.Call != nil && d.Call.Operation != "" && !c.calling[d.Call.Index] {
		c.calling[d.Call.Index] = true
		fmt.Fprintf(c.out, "%s… %s\n", c.newLine(), plain.Line(d.Call.Operation))
	}
}

// newLine returns the text that ends the line of what the model has written.
func (c *chatting) newLine() string {
	if text := c.written.String(); text != "" && !strings.HasSuffix(text, "\n") {
		c.written.WriteString("\n")
		return "\n"
	}
	return ""
}

func (c *chatting) showMessage(m *follow.Message) {
	c.last = m.N
	switch m.Kind {
	case "user":
		c.void("(interrupted)")
		if mine := c.said != "" && m.Text == c.said; !mine || !c.typed {
			fmt.Fprintf(c.out, "> %s\n", plain.Text(m.Text))
		}
		if m.Text == c.said {
			c.said = ""
		}
	case "assistant":
		c.showReply(m)
	case "result":
		var texts []string
		for i := range m.Content {
			texts = append(texts, m.Content[i].String())
		}
		fmt.Fprintf(c.out, "← %s: %s\n", plain.Line(c.names[m.ID]), plain.Text(strings.Join(texts, "\n")))
	case "summary":
		for _, note := range m.Notes {
			fmt.Fprintf(c.out, "! %s\n", plain.Line(note))
		}
		fmt.Fprintf(c.out, "(the first %d messages are summarized from here on)\n", m.From-1)
	case "notice":
		c.void("(the model has failed)")
		fmt.Fprintf(c.out, "! %s\n", plain.Text(m.Text))
	}
	c.asking = c.asking || m.Kind == "user" // until the next state says otherwise
	c.rest(m.Kind == "assistant" && len(m.Calls) == 0)
}

// showReply prints the part of a reply that was not printed while the model wrote it, and its calls.
func (c *chatting) showReply(m *follow.Message) {
	for _, note := range m.Notes {
		fmt.Fprintf(c.out, "%s! %s\n", c.newLine(), plain.Line(note))
	}
	written := strings.TrimSuffix(c.written.String(), "\n")
	rest, goes := strings.CutPrefix(m.Text, written)
	if !goes {
		c.void("(the model says instead)")
		rest = m.Text
	}
	if m.Text != "" && (rest != "" || !strings.HasSuffix(c.written.String(), "\n")) {
		fmt.Fprintln(c.out, plain.Text(rest))
	}
	c.written.Reset()
	clear(c.calling)
	for _, call := range m.Calls {
		c.names[call.ID] = call.Operation
		fmt.Fprintf(c.out, "→ %s %s\n", plain.Line(call.Operation), plain.Line(string(call.Arguments)))
	}
	if u := m.Usage; u != nil {
		fmt.Fprintf(c.out, "(%d tokens read, %d written)\n", u.Input, u.Output)
	}
}

func (c *chatting) showState(s *follow.State) {
	c.asking = s.Asking
	pending := map[string]string{}
	for _, p := range s.Pending {
		was, known := c.states[p.ID]
		if pending[p.ID] = p.State; p.State != was && (known || p.State != "pending") {
			fmt.Fprintf(c.out, "  %s: %s\n", plain.Line(p.Operation), plain.Line(p.State))
		}
	}
	c.states = pending
}

// rest notes that a turn is over: the model has answered without calls, or it could not be asked.
func (c *chatting) rest(answered bool) {
	if c.said == "" && c.last >= 0 && (answered || !c.asking && len(c.states) == 0) {
		c.sent = false
	}
}

func (c *chatting) showPrompts(prompts []follow.Prompt) {
	c.prompts = prompts
	defer c.askForm()
	for _, p := range prompts {
		key := promptKey(p)
		if c.shown[key] {
			continue
		}
		c.shown[key] = true
		fmt.Fprintf(c.out, "%s? %s of %s asks", c.newLine(), plain.Line(p.Operation), plain.Line(p.Toolset))
		if len(p.Choices) == 0 {
			fmt.Fprintf(c.out, " you to sign in at %s:\n  %s\n", plain.Line(p.Host), plain.Line(p.AuthURL))
			continue
		}
		if _, err := form.Parse(p.Form); err == nil {
			fmt.Fprintln(c.out, ":")
			continue
		}
		fmt.Fprintf(c.out, ": %s\n", plain.Line(p.Prompt))
		for i, choice := range p.Choices {
			fmt.Fprintf(c.out, "  %d) %s\n", i+1, plain.Line(choice))
		}
		fmt.Fprintf(c.out, "  [%d]\n", p.Default+1)
	}
}
