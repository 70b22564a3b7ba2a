// Package account provides a tool server whose tools need the user: to authorize, or to choose. It
// is separate from package exampletools because it needs an OAuth provider, and the test provider
// does not belong in a program that is shipped.
package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// Options are the settings of [Open].
type Options struct {
	// Server holds the settings of the server. An empty Name means "account".
	Server toolserver.Options
	// Provider is where users have their accounts. It is added to the server's providers. It must
	// support the scopes openid and profile, and must say who may complete an authorization.
	Provider toolserver.OAuthProvider
	// UserInfoURL is the provider's OpenID Connect userinfo endpoint.
	UserInfoURL string
}

// Open returns a server of tools that need the user:
//
//	whoami    tells who the user is at the provider
//	calendar  lists the user's appointments
//	order     asks the user what to order, and returns it
//
// The first two need the user's authorization.
func Open(opts Options) (*toolserver.Server, error) {
	if opts.Server.Name == "" {
		opts.Server.Name = "account"
	}
	if opts.Server.Description == "" {
		opts.Server.Description = "Tools that need the user, to try the protocol with."
	}
	opts.Server.Providers = append(opts.Server.Providers[:len(opts.Server.Providers):len(opts.Server.Providers)], opts.Provider)
	server, err := toolserver.Open(opts.Server)
	if err != nil {
		return nil, err
	}
	personal := toolserver.ToolOptions{
		RequireOAuth: opts.Provider.ID,
		Annotations:  agentproto.Annotations{ReadOnly: true, Idempotent: true},
	}

	toolserver.AddWithOptions(server, "whoami", "Tells who the user is.", personal,
		func(ctx context.Context, _ struct{}) (string, error) {
			who, err := userInfo(ctx, opts.UserInfoURL)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%s (%s)", who.Name, who.Subject), nil
		})

	toolserver.AddWithOptions(server, "calendar", "Lists the user's appointments of today.", personal,
		func(ctx context.Context, _ struct{}) ([]appointment, error) {
			who, err := userInfo(ctx, opts.UserInfoURL)
			if err != nil {
				return nil, err
			}
			return []appointment{
				{"09:00", "Stand-up with " + who.Name},
				{"12:30", "Lunch"},
				{"16:00", "Review of the mill race"},
			}, nil
		})

	type wish struct {
		Items []string `json:"items,omitempty" jsonschema:"what there is to choose from; tea, coffee or cake if left out"`
	}
	toolserver.Add(server, "order", "Asks the user what to order, and orders it.",
		func(ctx context.Context, in wish) (string, error) {
			items := in.Items
			if len(items) == 0 {
				items = []string{"tea", "coffee", "cake"}
			}
			i, err := toolserver.Choose(ctx, "What would you like?", items, 0)
			if err != nil {
				return "", err
			}
			return items[i], nil
		})
	return server, nil
}

// An appointment is an entry of a calendar.
type appointment struct {
	At    string `json:"at"`
	Title string `json:"title"`
}

// A person is what the provider says about the user.
type person struct {
	Subject string `json:"sub"`
	Name    string `json:"name"`
}

// userInfo asks the provider who the user is.
func userInfo(ctx context.Context, address string) (person, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return person{}, err
	}
	resp, err := toolserver.Client(ctx).Do(req)
	if err != nil {
		return person{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return person{}, fmt.Errorf("the provider answered %d", resp.StatusCode)
	}
	var who person
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&who); err != nil {
		return person{}, errors.New("the provider's answer cannot be read")
	}
	return who, nil
}
