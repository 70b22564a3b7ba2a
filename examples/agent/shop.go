package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/form"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// A shop has three tools: one that answers, one that asks the user, and one that tells what happens later.
type shop struct{ arrived chan struct{} } // closed when what was ordered arrives

type item struct {
	Name string `json:"name" jsonschema:"what is sold, such as tea"`
}

// open returns a server of the tools. The schemas that a model sees are made from the types.
func (s shop) open(url string) *toolserver.Server {
	server := toolserver.New(toolserver.Options{Name: "shop", PublicURL: url})
	harmless := toolserver.ToolOptions{Annotations: agentproto.Annotations{ReadOnly: true}}
	toolserver.AddWithOptions(server, "stock", "Tells how much there is of something.", harmless, s.stock)
	toolserver.Add(server, "order", "Orders something, if the user wants to.", s.order)
	toolserver.AddSubscription(server, "follow", "Tells when an order arrives.", harmless, s.follow, s.deliver)
	return server
}

func (s shop) stock(_ context.Context, in item) (string, error) {
	if in.Name != "tea" {
		return "", errors.New("there is tea, and nothing else")
	}
	return "5 packets of tea, each 100 g, at 2.50", nil
}

func (s shop) order(ctx context.Context, in item) (string, error) {
	answer, err := toolserver.Ask(ctx, toolserver.Question{Form: form.Form{Questions: []form.Question{{
		Name: "order", Message: "How much " + in.Name + " do you want?",
		Fields: []form.Field{{Name: "packets", Kind: form.Integer, Required: true}},
	}}}})
	if err != nil || answer.Values["order"] == nil {
		return "The user does not want any.", err
	}
	var order struct{ Packets int }
	err = json.Unmarshal(answer.Values["order"], &order)
	return fmt.Sprintf("%d packets of %s are ordered", order.Packets, in.Name), err
}

// follow opens a subscription. The item is its state: all that deliver goes by, also after a restart.
func (s shop) follow(_ context.Context, in item) (string, *item, error) {
	return "You will hear of it.", &in, nil
}

func (s shop) deliver(ctx context.Context, sub *toolserver.Subscription[item]) error {
	select {
	case <-s.arrived:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return sub.Send(ctx, toolserver.Event{Text: "The " + sub.State().Name + " has arrived.", Inline: true, Final: true}, sub.State())
}
