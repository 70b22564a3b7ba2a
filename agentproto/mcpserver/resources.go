package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host"
)

// A subscription that a call has opened is a resource, named by the call's id. An owner's thread contains no calls of other
// owners, so the id needs no seal. The events are stored by the runtime: see doc/decisions/0109-subscriptions-are-resources.md.

const subscriptionsAt = "millrace://subscriptions/"

// subscriptionURI returns the URI of the subscription of a call.
func subscriptionURI(id string) string { return subscriptionsAt + url.PathEscape(id) }

// keyOf returns the call of a URI, and returns false if the URI is not that of a subscription.
func (o *owner) keyOf(uri string) (agentproto.CallKey, bool) {
	escaped, found := strings.CutPrefix(uri, subscriptionsAt)
	id, err := url.PathUnescape(escaped)
	return agentproto.CallKey{GroupID: o.thread, ID: id}, found && err == nil && id != "" && subscriptionURI(id) == uri
}

// events returns the events of a URI. If the URI is not a subscription of this owner, the error says that the resource does not
// exist.
func (o *owner) events(ctx context.Context, uri string) (e agentproto.Events, err error) {
	key, ok := o.keyOf(uri)
	if ok {
		e, err = o.s.opts.Calls.Events(ctx, key, -1)
	}
	if !ok || errors.Is(err, host.ErrUnknownCall) {
		return e, mcp.ResourceNotFoundError(uri)
	}
	return e, o.s.errorOf(ctx, err)
}

// listResources adds the open subscriptions to a list.
func (o *owner) listResources(ctx context.Context, into *mcp.ListResourcesResult) error {
	open, err := o.s.opts.Calls.Subscriptions(ctx, o.thread)
	if err != nil {
		return o.s.errorOf(ctx, err)
	}
	for _, e := range open {
		into.Resources = append(into.Resources, &mcp.Resource{
			URI: subscriptionURI(e.Key.ID), Name: e.Operation, MIMEType: "application/json",
			Description: "The events of a subscription that a call of " + e.Operation + " has opened.",
		})
	}
	return nil
}

// A subscriptionText is the content of a resource.
type subscriptionText struct {
	Tool   string      `json:"tool"`
	Last   int         `json:"last"`           // the number of the last event; the first is 1
	Gone   int         `json:"gone,omitempty"` // how many of the first events are no longer stored
	Events []eventText `json:"events"`         // the stored events, in order
	Ended  bool        `json:"ended"`          // no more events will come
}

type eventText struct {
	N    int    `json:"n"`
	Text string `json:"text"`
}

// readResource answers resources/read.
func (o *owner) readResource(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	e, err := o.events(ctx, req.Params.URI)
	if err != nil {
		return nil, err
	}
	says := subscriptionText{Tool: e.Operation, Last: e.Last, Gone: e.Last - len(e.Texts), Events: []eventText{}, Ended: e.Ended}
	for i, text := range e.Texts {
		says.Events = append(says.Events, eventText{says.Gone + i + 1, text})
	}
	text, err := json.Marshal(says)
	if err != nil {
		return nil, err
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: req.Params.URI, MIMEType: "application/json", Text: string(text)}}}, nil
}
