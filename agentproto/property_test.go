package agentproto

import (
	"flag"
	"reflect"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/gen"
	"github.com/leanovate/gopter/prop"
)

var (
	update = flag.Bool("update", false, "rewrite golden files")
	seed   = flag.Int64("seed", 0, "seed of the random tests; 0 takes one from the clock")
)

// genOptional sometimes generates nil.
func genOptional(g gopter.Gen) gopter.Gen { return gen.PtrOf(g) }

// genIDs generates strings, some of which are not valid IDs.
var genIDs = gen.Weighted([]gen.WeightedGen{
	{Weight: 6, Gen: gen.Identifier()},
	{Weight: 2, Gen: gen.AnyString()},
	{Weight: 1, Gen: gen.OneConstOf("../g", "👩‍💻", "", "a\nb")},
})

var genURLs = gen.OneConstOf("https://a.example/x?y=z", "https://[::1]:8443/", "http://a.example", "", "https://u@a.example/")

var genValues = gen.OneConstOf(`{}`, `{"a":[1,2.50,"\u0041",null,{"b":true}]}`, ` { } `, `[]`, `{"a":1e400}`).
	Map(func(s string) jsontext.Value { return jsontext.Value(s) })

func genStruct(m any, fields map[string]gopter.Gen) gopter.Gen {
	return gen.StructPtr(reflect.TypeOf(m), fields)
}

var genMessages = gen.OneGenOf(
	genStruct(ToolResult{}, map[string]gopter.Gen{
		"GroupID": genIDs, "ID": genIDs, "CallID": genOptional(genIDs), "Text": genOptional(gen.AnyString()), "Subscription": gen.Bool(),
		"Content": gen.SliceOf(gen.Struct(reflect.TypeOf(Content{}), map[string]gopter.Gen{
			"Type": gen.Const(KindText), "Text": gen.AnyString(),
		})),
		"DisplayAs": gen.SliceOf(gen.OneGenOf(
			gen.Struct(reflect.TypeOf(Display{}), map[string]gopter.Gen{"Type": gen.Const(KindText), "Text": gen.AnyString()}),
			gen.Struct(reflect.TypeOf(Display{}), map[string]gopter.Gen{"Type": gen.OneConstOf("chart", "")}),
		)),
	}),
	genStruct(SubscriptionEvent{}, map[string]gopter.Gen{"GroupID": genIDs, "ToolCallID": genIDs, "Text": gen.AnyString(), "Associative": gen.Bool(), "Final": gen.Bool()}),
	genStruct(OAuth{}, map[string]gopter.Gen{"GroupID": genIDs, "ID": genIDs, "CallID": genOptional(genIDs), "AuthURL": genURLs}),
	genStruct(UserChoice{}, map[string]gopter.Gen{"GroupID": genIDs, "ID": genIDs, "Prompt": gen.AnyString(), "Choices": gen.SliceOf(gen.AnyString()), "Default": gen.IntRange(0, 3), "ResponseURL": genURLs}),
	genStruct(ViewUpdate{}, map[string]gopter.Gen{"GroupID": genIDs, "ViewType": genIDs, "Content": genValues}),
	genStruct(Invocation{}, map[string]gopter.Gen{"Arguments": genValues, "Operation": genIDs, "ID": genIDs, "GroupID": genIDs, "CallID": genOptional(genIDs), "CallbackURL": genURLs, "ThreadAncestors": gen.SliceOf(genIDs), "UserID": genOptional(genIDs)}),
	genStruct(ChoiceResponse{}, map[string]gopter.Gen{"ID": genIDs, "Selected": gen.Int()}),
	genStruct(CloseThread{}, map[string]gopter.Gen{"ThreadID": genIDs}),
	genStruct(CancelToolCall{}, map[string]gopter.Gen{"ThreadID": genIDs, "ToolCallID": genIDs}),
	genStruct(Migrate{}, map[string]gopter.Gen{"SessionID": genIDs, "DestinationURL": genURLs}),
)

// TestRoundTripProperty checks that a decoder reads what Encode writes, and that encoding the result gives
// the same bytes. A message that Encode refuses is not written at all.
func TestRoundTripProperty(t *testing.T) {
	if *seed == 0 {
		*seed = time.Now().UnixNano()
	}
	params := gopter.DefaultTestParametersWithSeed(*seed)
	params.MinSuccessfulTests = 3000
	accepted := 0
	properties := gopter.NewProperties(params)
	properties.Property("decode(encode(m)) = m", prop.ForAll(func(m any) bool {
		data, err := Encode(m)
		if err != nil {
			return data == nil
		}
		accepted++
		again, err := decodeLike(m, data)
		if err != nil {
			return false
		}
		second, err := Encode(again)
		return err == nil && string(second) == string(data) && reflect.DeepEqual(normal(again), normal(m))
	}, genMessages))
	if !properties.Run(gopter.ConsoleReporter(false)) {
		t.Fatalf("rerun: go test ./agentproto -run '^%s$' -seed %d", t.Name(), *seed)
	}
	if accepted < 300 {
		t.Fatalf("only %d messages of 3000 were accepted\nrerun: go test ./agentproto -run '^%s$' -seed %d", accepted, t.Name(), *seed)
	}
}

// decodeLike decodes data as a message of m's type.
func decodeLike(m any, data []byte) (any, error) {
	switch m.(type) {
	case Callback:
		return DecodeCallback(data, Limits{})
	case *Invocation:
		return DecodeInvocation(data, Limits{})
	case *Manifest:
		return DecodeManifest(data, Limits{})
	case *ChoiceResponse:
		return DecodeChoiceResponse(data, Limits{})
	case *CloseThread:
		return DecodeCloseThread(data, Limits{})
	case *CancelToolCall:
		return DecodeCancelToolCall(data, Limits{})
	case *Migrate:
		return DecodeMigrate(data, Limits{})
	}
	panic("no message")
}

// normal removes differences that the protocol ignores: an empty list equals an absent one, except
// for content.
func normal(m any) any {
	switch m := m.(type) {
	case *ToolResult:
		c := *m
		if len(c.DisplayAs) == 0 {
			c.DisplayAs = nil
		}
		return c
	case *Invocation:
		c := *m
		if len(c.ThreadAncestors) == 0 {
			c.ThreadAncestors = nil
		}
		c.Arguments = canonical(c.Arguments)
		return c
	case *ViewUpdate:
		c := *m
		c.Content = canonical(c.Content)
		return c
	}
	return reflect.ValueOf(m).Elem().Interface()
}
