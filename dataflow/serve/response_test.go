package serve_test

import (
	"fmt"
	"net/http"
	"reflect"
	"testing"

	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/serve"
)

// TestResponseEncoding checks that decoding an encoded response returns the same response.
func TestResponseEncoding(t *testing.T) {
	if err := durable.CBOR().Check(reflect.TypeFor[serve.Response]()); err != nil {
		t.Error(err)
	}
	for _, r := range []serve.Response{
		{},
		serve.Text(404, "nothing here"),
		serve.Reply(201, map[string]int{"n": 1}),
		serve.Reply(200, make(chan int)),
		{Status: 200, Header: http.Header{"X-A": {"1", "2"}, "X-B": {"\xff\xfe"}}, Body: []byte("\x00\xff")},
	} {
		data, err := durable.CBOR().Append(nil, r)
		if err != nil {
			t.Fatal(err)
		}
		var back serve.Response
		if err := durable.CBOR().Decode(data, &back); err != nil {
			t.Fatal(err)
		}
		if back.Err() != r.Err() || back.Status != r.Status || string(back.Body) != string(r.Body) || fmt.Sprint(back.Header) != fmt.Sprint(r.Header) {
			t.Errorf("%+v came back as %+v", r, back)
		}
	}
	if err := new(serve.Response).UnmarshalBinary([]byte("x")); err == nil {
		t.Error("what is no response was decoded")
	}
}
