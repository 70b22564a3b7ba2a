package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
)

// A RequestOf is a request with a JSON body, and the decoded body. Like a [Request] it is
// shared and must not be changed.
type RequestOf[T any] struct {
	*Request
	Value T
}

// JSON is [Router.Handle] for requests whose body is JSON. The flow sees only requests
// whose body can be decoded as a T; others are answered 400. A request with a Content-Type
// other than JSON is answered 415, whatever its body.
//
//	orders, placed := serve.JSON[Order](router, "POST /orders")
//	orders.Respond(keyedsingleton.Map(placed, func(r *serve.RequestOf[Order]) serve.Response {
//		return serve.Reply(http.StatusCreated, price(r.Value))
//	}))
//
// Decoding follows encoding/json: fields that T does not have are ignored, and those that
// the body does not have are zero.
func JSON[T any, L dataflow.Location](
	router *Router[L], pattern string,
) (*Route[L], dataflow.KeyedSingleton[RequestID, *RequestOf[T], L, bounds.BoundedValue]) {
	return newRoute(router, "serve.JSON", pattern, decode[T])
}

func decode[T any](r *Request) (*RequestOf[T], error) {
	if t := r.Header.Get("Content-Type"); t != "" && !isJSON(t) {
		return nil, &refusal{http.StatusUnsupportedMediaType, "the request's body must be JSON"}
	}
	of := &RequestOf[T]{Request: r}
	err := json.Unmarshal(r.Body, &of.Value)
	var syntax *json.SyntaxError
	var field *json.UnmarshalTypeError
	switch {
	case err == nil:
		return of, nil
	case errors.As(err, &syntax):
		return nil, &refusal{http.StatusBadRequest, fmt.Sprintf("the request's body is not valid JSON at byte %d", syntax.Offset)}
	case errors.As(err, &field) && field.Field != "":
		return nil, &refusal{http.StatusBadRequest, fmt.Sprintf("the request's body does not fit: the field %s cannot be a %s", field.Field, field.Value)}
	}
	return nil, &refusal{http.StatusBadRequest, "the request's body does not fit"}
}

// isJSON reports whether a media type is JSON.
func isJSON(contentType string) bool {
	t, _, err := mime.ParseMediaType(contentType)
	return err == nil && (t == "application/json" || strings.HasPrefix(t, "application/") && strings.HasSuffix(t, "+json"))
}
