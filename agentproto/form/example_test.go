package form_test

import (
	"fmt"

	"github.com/millrace/millrace/agentproto/form"
)

func Example() {
	f := form.Form{Questions: []form.Question{{Name: "guest", Message: "Who stays, and for how long?", Fields: []form.Field{
		{Name: "name", Kind: form.Text, Required: true},
		{Name: "nights", Kind: form.Integer, Default: []byte("1")},
	}}}}
	data, err := f.Encode()
	fmt.Println(string(data), err)
	for _, filled := range []string{`{"guest":{"name":"Ada","nights":2}}`, `{"guest":{"nights":2}}`} {
		values, err := form.Values([]byte(filled))
		if err == nil {
			err = f.Check(values)
		}
		fmt.Println(err)
	}
	// Output:
	// {"questions":[{"name":"guest","message":"Who stays, and for how long?","schema":{"type":"object","properties":{"name":{"type":"string"},"nights":{"type":"integer","default":1}},"required":["name"]}}]} <nil>
	// <nil>
	// "name" of "guest" is missing
}
