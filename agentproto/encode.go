package agentproto

import (
	"fmt"
	"math"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Encode returns a message as JSON: a [Callback], an [Invocation], a [Manifest], a [ChoiceResponse], a [CloseThread], a
// [CancelToolCall] or a [Migrate], or a pointer to one. Members are in the order of the protocol and absent ones are omitted, so
// equal messages have equal bytes. Encode refuses what the message's decoder refuses, with the same *[MessageError], except that
// it does not limit the size.
func Encode(message any) ([]byte, error) {
	switch v := reflect.ValueOf(message); {
	case v.Kind() == reflect.Struct:
		p := reflect.New(v.Type())
		p.Elem().Set(v)
		message = p.Interface()
	case v.Kind() == reflect.Pointer && v.IsNil():
		return nil, fmt.Errorf("agentproto: cannot encode a nil %T", message)
	}
	wire, decode := wireForm(message)
	if decode == nil {
		return nil, fmt.Errorf("agentproto: cannot encode %T", message)
	}
	data, err := json.Marshal(wire)
	if err != nil {
		return nil, fmt.Errorf("agentproto: cannot encode %T: %w", message, err)
	}
	if err := decode(data); err != nil {
		return nil, err
	}
	return data, nil
}

// wireForm returns the value whose JSON is the message, and the decoder of the message.
func wireForm(message any) (wire any, decode func([]byte) error) {
	switch m := message.(type) {
	case *ToolResult:
		return struct {
			Type string `json:"type"`
			*ToolResult
		}{m.Type(), m}, checker(DecodeCallback)
	case *SubscriptionEvent:
		return struct {
			Type string `json:"type"`
			*SubscriptionEvent
		}{m.Type(), m}, checker(DecodeCallback)
	case *OAuth:
		return struct {
			Type string `json:"type"`
			*OAuth
		}{m.Type(), m}, checker(DecodeCallback)
	case *UserChoice:
		return struct {
			Type string `json:"type"`
			*UserChoice
		}{m.Type(), m}, checker(DecodeCallback)
	case *ViewUpdate:
		return struct {
			Type string `json:"type"`
			*ViewUpdate
		}{m.Type(), m}, checker(DecodeCallback)
	case *Invocation:
		i := *m
		if i.Arguments == nil {
			i.Arguments = jsontext.Value("{}")
		}
		return &i, checker(DecodeInvocation)
	case *Manifest:
		return m, checker(DecodeManifest)
	case *ChoiceResponse:
		return m, checker(DecodeChoiceResponse)
	case *CloseThread:
		return m, checker(DecodeCloseThread)
	case *CancelToolCall:
		return m, checker(DecodeCancelToolCall)
	case *Migrate:
		return m, checker(DecodeMigrate)
	}
	return nil, nil
}

// checker returns a function that decodes without limits on bytes and members.
func checker[M any](decode func([]byte, Limits) (M, error)) func([]byte) error {
	return func(data []byte) error {
		_, err := decode(data, Limits{Bytes: math.MaxInt64, Members: math.MaxInt})
		return err
	}
}
