"""PyTorch: gradients that are reduced between workers while the backward pass goes on.

    tutti run --workers 2 -- python3 pytorch.py
"""

import torch

import tutti


def main():
    torch.manual_seed(0)
    with tutti.Cluster.join() as cluster, tutti.Communicator.create(cluster) as ranks:
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
        for parameter in model.parameters():
            ranks.broadcast(parameter)  # written where it lies
            parameter.grad = torch.zeros_like(parameter)
        named = list(reversed(list(model.named_parameters())))  # as backward makes them
        plan = tutti.BucketPlan(ranks, [parameter.grad for _, parameter in named], "mean",
                                names=[name for name, _ in named])
        for i, (_, parameter) in enumerate(named):
            parameter.register_post_accumulate_grad_hook(lambda _, i=i: plan.ready(i))

        inputs = torch.randn(64, 8)
        data = tutti.data.Dataset.from_tensor_slices(
            {"x": inputs.numpy(), "y": (inputs.sum(1) > 0).long().numpy()})
        data = data.shard(ranks.size, ranks.rank).repeat(20).batch(8)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for batch in data.as_numpy_iterator(writable=True):
            for parameter in model.parameters():
                parameter.grad.zero_()  # and not None: the plan holds this memory
            loss = torch.nn.functional.cross_entropy(
                model(torch.from_numpy(batch["x"])), torch.from_numpy(batch["y"]))
            loss.backward()
            plan.wait()
            optimizer.step()
        losses = ranks.all_gather_value(float(loss))
        if ranks.rank == 0:
            print("losses:", losses)


if __name__ == "__main__":
    main()
