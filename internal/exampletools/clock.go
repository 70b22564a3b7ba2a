package exampletools

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// ClockOptions are the settings of [Clock].
type ClockOptions struct {
	// Server holds the settings of the server. An empty Name means "clock".
	Server toolserver.Options
	// Now is the clock of the tool now. Nil means [time.Now].
	Now func() time.Time
}

// Clock returns a server of tools that answer at once:
//
//	echo    returns its text
//	add     adds two numbers
//	now     tells the time
//	fail    fails
//	thrice  posts its result three times, as a careless tool might
//	strict  takes arguments of many types, to show the answer to a wrong one
func Clock(opts ClockOptions) (*toolserver.Server, error) {
	named(&opts.Server, "clock", "Fast tools to try the protocol with.")
	if opts.Now == nil {
		opts.Now = time.Now
	}
	server, err := toolserver.Open(opts.Server)
	if err != nil {
		return nil, err
	}
	harmless := toolserver.ToolOptions{Annotations: agentproto.Annotations{ReadOnly: true, Idempotent: true}}

	type words struct {
		Text string `json:"text" jsonschema:"any text"`
	}
	toolserver.AddWithOptions(server, "echo", "Returns the text it is given.", harmless,
		func(_ context.Context, in words) (string, error) { return in.Text, nil })

	type numbers struct {
		A float64 `json:"a" jsonschema:"the first number"`
		B float64 `json:"b" jsonschema:"the second number"`
	}
	toolserver.AddWithOptions(server, "add", "Adds two numbers.", harmless,
		func(_ context.Context, in numbers) (float64, error) { return in.A + in.B, nil })

	toolserver.AddWithOptions(server, "now", "Tells the time, in UTC.", harmless,
		func(context.Context, struct{}) (string, error) { return opts.Now().UTC().Format(time.RFC3339), nil })

	type failure struct {
		Reason string `json:"reason,omitempty" jsonschema:"what the error says"`
	}
	toolserver.AddWithOptions(server, "fail", "Fails, always.", harmless,
		func(_ context.Context, in failure) (string, error) {
			if in.Reason == "" {
				return "", errors.New("this tool always fails")
			}
			return "", errors.New(in.Reason)
		})

	post := newPoster(opts.Server)
	toolserver.AddWithOptions(server, "thrice", "Returns its text, three times where once would be right.", harmless,
		func(ctx context.Context, in words) (string, error) {
			for range 2 { // the server posts the third result
				if err := post.result(ctx, toolserver.Invocation(ctx), in.Text); err != nil {
					return "", err
				}
			}
			return in.Text, nil
		})

	toolserver.AddWithOptions(server, "strict", "Sums up a reservation; takes arguments of many types.", harmless, sumUp)
	return server, nil
}

// A reservation has a member for every type that arguments may have.
type reservation struct {
	Name   string         `json:"name" jsonschema:"on whose name"`
	Nights uint8          `json:"nights" jsonschema:"how many nights, up to 255"`
	Late   bool           `json:"late,omitempty" jsonschema:"whether the guest arrives late"`
	Guests []guest        `json:"guests,omitempty" jsonschema:"who comes along"`
	Extras map[string]int `json:"extras,omitempty" jsonschema:"how many of what"`
}

type guest struct {
	Name string `json:"name"`
	Age  int    `json:"age"`
}

func sumUp(_ context.Context, r reservation) (string, error) {
	parts := []string{fmt.Sprintf("%s for %d nights", r.Name, r.Nights)}
	for _, g := range r.Guests {
		parts = append(parts, fmt.Sprintf("%s (%d)", g.Name, g.Age))
	}
	if n := len(r.Extras); n > 0 {
		parts = append(parts, fmt.Sprintf("%d extras", n))
	}
	if r.Late {
		parts = append(parts, "late arrival")
	}
	return strings.Join(parts, ", "), nil
}

// named sets the name and the description of a server that has none.
func named(opts *toolserver.Options, name, description string) {
	if opts.Name == "" {
		opts.Name = name
	}
	if opts.Description == "" {
		opts.Description = description
	}
}
