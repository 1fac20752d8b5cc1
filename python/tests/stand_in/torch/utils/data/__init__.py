from torch.utils.data.dataloader import DataLoader, Dataset, get_worker_info

__all__ = ["DataLoader", "Dataset", "get_worker_info"]
