package envfilter_test

import (
	"fmt"

	"github.com/hermes-exec/hermes-exec/envfilter"
)

func ExampleFilter() {
	ds := envfilter.Filter([]string{
		"HOME=/home/me",
		"https_proxy=http://me:hunter2@proxy:3128",
		"LANGSMITH_API_KEY=ls-1",
		"CUDA_HOME=/opt/cuda",
		"EDITOR=vi", "DATABASE_URL=postgres://me:hunter2@db/x",
	}, envfilter.Options{Passthrough: []string{"CUDA_HOME", "LANGSMITH_API_KEY"}})
	for _, d := range ds {
		fmt.Printf("%v %s %s\n", d.Pass, d.Name, d.Rule)
	}
	fmt.Println(envfilter.Environ(ds))
	// Output:
	// true CUDA_HOME passthrough
	// false DATABASE_URL secret
	// false EDITOR unlisted
	// true HOME listed
	// false LANGSMITH_API_KEY provider
	// true https_proxy listed
	// [CUDA_HOME=/opt/cuda HOME=/home/me https_proxy=http://proxy:3128]
}
