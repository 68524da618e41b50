package tutti

import (
	"runtime/cgo"
	"strconv"
)

// answerCallback is a function of the program's that resolvers ask with texts.
func answerCallback(answer func(question []string) (string, error)) cgo.Handle {
	return borrowed(func(_ int32, _, in uintptr) (uintptr, error) {
		question, end := lent(in)
		defer end()
		words := make([]string, question.Len())
		for i := range words {
			word, err := question.At(i)
			if err != nil {
				return 0, err
			}
			words[i], err = word.Text()
			word.Close()
			if err != nil {
				return 0, err
			}
		}
		text, err := answer(words)
		if err != nil {
			return 0, err
		}
		value, err := From(text)
		if err != nil {
			return 0, err
		}
		defer value.Close()
		return value.retained()
	})
}

// answerOf is what a resolver of the program's says; "" is nothing.
func answerOf(resolver Resolver, question []string) (string, error) {
	options := ResolverOptions{TaskType: question[1], RPCLayer: question[3]}
	if question[2] != "" {
		id, err := strconv.ParseInt(question[2], 10, 64)
		if err != nil {
			return "", err
		}
		options.TaskID = &id
	}
	switch question[0] {
	case "cluster_spec":
		spec, err := resolver.ClusterSpec()
		if err != nil {
			return "", err
		}
		return spec.JSON()
	case "task_type":
		return resolver.TaskType()
	case "task_id":
		id, known, err := resolver.TaskID()
		if err != nil || !known {
			return "", err
		}
		return strconv.FormatInt(id, 10), nil
	case "rpc_layer":
		if with, ok := resolver.(interface{ RPCLayer() (string, error) }); ok {
			return with.RPCLayer()
		}
	case "environment":
		if with, ok := resolver.(interface{ Environment() (string, error) }); ok {
			return with.Environment()
		}
	case "master":
		if with, ok := resolver.(interface {
			Master(ResolverOptions) (string, error)
		}); ok {
			return with.Master(options)
		}
		if with, ok := resolver.(interface {
			Master(...ResolverOption) (string, error)
		}); ok {
			return with.Master(options)
		}
	case "num_accelerators":
		return acceleratorsOf(resolver, options)
	}
	return "", nil
}

func acceleratorsOf(resolver Resolver, options ResolverOptions) (string, error) {
	if with, ok := resolver.(interface {
		Accelerators(ResolverOptions) (map[string]int64, error)
	}); ok {
		counts, err := with.Accelerators(options)
		if err != nil {
			return "", err
		}
		return acceleratorsText(counts)
	}
	if with, ok := resolver.(interface {
		Accelerators(...ResolverOption) (map[string]int64, error)
	}); ok {
		counts, err := with.Accelerators(options)
		if err != nil {
			return "", err
		}
		return acceleratorsText(counts)
	}
	if with, ok := resolver.(interface{ NumAccelerators() (int64, error) }); ok {
		count, err := with.NumAccelerators()
		if err != nil {
			return "", err
		}
		return acceleratorsText(map[string]int64{"GPU": count})
	}
	return "", nil
}

// GCEService is asked instead of Compute Engine and gives JSON as Compute Engine does.
type GCEService interface {
	// ListInstances of a group, a page of them; page is "" for the first one, else what the answer
	// before it has as "nextPageToken".
	ListInstances(project, zone, group, page string) (string, error)
	// Instance is one of them.
	Instance(project, zone, name string) (string, error)
}

// answer is a question to the service, or to the credentials.
func (g GCEOptions) answer(question []string) (string, error) {
	switch question[0] {
	case "token":
		return g.Credentials()
	case "list_instances":
		return g.Service.ListInstances(question[1], question[2], question[3], question[4])
	}
	return g.Service.Instance(question[1], question[2], question[3])
}
